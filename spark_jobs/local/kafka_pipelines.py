"""`freshet up --source kafka`: the shipped pipelines read topics of a broker of their own, not landing folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from spark_jobs.local.changed_pipelines import write_changed_pipelines
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.settings import SHIPPED, Home
from spark_jobs.workload.topics import make_topics

TOPICS = ("orders", "order_lines")
"""What the workload writes to topics, which are called as their landing folders would be."""

_LANDING = "${FRESHET_HOME}/landing/"
# Their files, not their names: a file of the same name in a folder of one's own is one's own.
_SHIPPED = {SHIPPED / "dags" / "pipelines" / f"{name}.yaml" for name in (*TOPICS, "fulfilment")}

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
    """Write the definitions of a folder as they are to be with a broker; only those that Freshet ships are changed.

    A pipeline of the user's reads what it says, also where its files lie in a folder that is called as a topic.

    Payments and shipments land as files all the same: `fulfilment` joins them with the topic of the orders.

    Args:
        pipelines: the folder of the definitions.
        folder: where to; definitions of former runs are removed.
        servers: the broker.

    Raises:
        PipelineDefinitionError: a definition can't be read.
    """
    write_changed_pipelines(pipelines, folder, partial(_changed, servers=servers), "--source kafka")


def _changed(path: Path, definition: dict[str, Any], servers: str) -> dict[str, Any]:
    return from_topic(definition, servers) if path.resolve() in _SHIPPED else definition


def from_topic(definition: dict[str, Any], servers: str) -> dict[str, Any]:
    """A definition, as its YAML file has it, that reads topics where their events land as files else."""
    if "source" in definition:
        return definition | {"source": _from_topic(definition["source"], servers)}
    return definition | {"streams": {name: _from_topic(of, servers) for name, of in definition["streams"].items()}}


def _from_topic(source: dict[str, Any], servers: str) -> dict[str, Any]:
    topic = str(source.get("path")).removeprefix(_LANDING)
    if topic not in TOPICS:
        return source
    kept = {name: value for name, value in source.items() if name not in {"path", "after_load"}}
    return kept | {"format": "json", "kafka": {"servers": servers, "topic": topic}}
