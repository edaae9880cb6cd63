"""`freshet up --source kafka`: the shipped pipelines read topics of a broker of their own, not landing folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from spark_jobs.local.changed_pipelines import write_changed_pipelines
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.settings import Home
from spark_jobs.workload.topics import make_topics

TOPICS = ("orders", "order_lines")
"""Pipelines whose events the workload writes to topics, which have their names."""

_PARTITIONS = 4


def kafka_broker(home: Home) -> KafkaBroker:
    """The installation's broker; not started yet, but one that a killed process has left is ended."""
    return KafkaBroker(home.kafka, home.logs / "kafka.log")


@contextlib.contextmanager
def running_with_topics(broker: KafkaBroker) -> Iterator[None]:
    """Have a broker run for the time of the block, whatever becomes of its process, with the workload's topics.

    Raises:
        PlatformError: its jars can't be fetched, or it does not start.
    """
    with broker.use(), broker.kept_running():
        make_topics(broker.servers, list(TOPICS), _PARTITIONS)
        yield


def write_kafka_pipelines(pipelines: Path, folder: Path, servers: str) -> None:
    """Write the definitions of a folder as they are to be with a broker; those of others' events stay as they are.

    The one that joins orders with what follows them is left out: of several streams none can be a topic, and where
    orders go to a topic they don't land as files.

    Args:
        pipelines: the folder of the definitions.
        folder: where to; definitions of former runs are removed.
        servers: the broker.

    Raises:
        PipelineDefinitionError: a definition can't be read.
    """
    write_changed_pipelines(pipelines, folder, partial(from_topic, servers=servers), "--source kafka")


def from_topic(definition: dict[str, Any], servers: str) -> dict[str, Any] | None:
    """A definition, as its YAML file has it, that reads a topic where its events land as files else; None: left out."""
    if definition["name"] == "fulfilment":
        return None
    if definition["name"] not in TOPICS or "path" not in definition.get("source", {}):
        return definition
    source = {name: value for name, value in definition["source"].items() if name not in {"path", "after_load"}}
    kafka = {"servers": servers, "topic": definition["name"]}
    return definition | {"source": source | {"format": "json", "kafka": kafka}}
