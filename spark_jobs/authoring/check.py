"""All that can be told of a pipeline before its stream starts: what does not fit, and what it will do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from psycopg2 import extensions

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.control.registration import check_registration
from spark_jobs.definition import PipelineDefinition, Source
from spark_jobs.definition.correlation import read_alike
from spark_jobs.definition.kafka import Kafka
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.join_folder import check_join_state
from spark_jobs.errors import PipelineDefinitionError, SchemaMismatchError, SourceAwayError, StateDamagedError
from spark_jobs.lookup.changes.triggers import WatchOutcome, look_at_relations
from spark_jobs.lookup.planning.memory import said_of_memory
from spark_jobs.settings import Home
from spark_jobs.source.files.names import is_landed
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.warehouse.connection import connect

_MOST_COUNTED = 100_000


@dataclass
class CheckReport:
    """What a check found.

    Attributes:
        problems: what keeps the pipeline from loading, each with what to do.
        notes: what is worth knowing.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_pipeline(definition: PipelineDefinition, warehouse_url: str, home: Home) -> CheckReport:
    """Compare a definition with the warehouse, the landing folders and the join's state; changes nothing.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse.
        home: the installation, which holds the landing folders and the state.

    Raises:
        WarehouseUnavailableError: the warehouse does not answer.
    """
    report = CheckReport()
    for name, source in (definition.streams or {"events": definition.source}).items():
        if source.kafka is None:
            report.notes.append(_landed(name, source, source.resolved_path(home)))
        else:
            _check_topic(definition.name, source, source.kafka, report)
    for read, names in read_alike(definition.streams or {}).items():
        report.notes.append(f"{' and '.join(names)} read the same events, of {read}: each takes all of them")
    with closing(connect(warehouse_url, application_name=f"freshet check {definition.name}")) as connection:
        _check_registered(connection, definition, report)
        try:
            check_join_state(connection, definition, home)
        except (PipelineDefinitionError, StateDamagedError) as error:
            report.problems.append(str(error))
        try:
            tables = check_tables(connection, definition)
        except SchemaMismatchError as error:
            connection.rollback()
            advice = f"\n`freshet ddl {definition.name}` writes a fact table that fits."
            report.problems.append(f"{error}{advice if definition.fact.table in str(error) else ''}")
        else:
            outcomes = look_at_relations(connection, definition.lookups)
            report.notes += _told_of_tables(definition, tables, outcomes)
    return report


def _check_topic(pipeline: str, source: Source, kafka: Kafka, report: CheckReport) -> None:
    try:
        decoder = RecordDecoder.of(source)
        registry = None if decoder.avro is None else decoder.avro.registry
        if registry is not None and registry.tells_password_to_others:
            report.notes.append(
                f"the password for the schema registry at {registry.url} goes over the network as it is: write https://"
            )
        _, partitions = TopicOffsets(KafkaClient.of(kafka, pipeline), kafka.topic).described()
    except (PipelineDefinitionError, SourceAwayError) as error:
        report.problems.append(str(error))
    else:
        report.notes.append(f"topic {kafka.topic} at {kafka.servers}: {partitions} partitions")


def _check_registered(connection: extensions.connection, definition: PipelineDefinition, report: CheckReport) -> None:
    stated = definition.model_dump(mode="json", by_alias=True)
    try:
        with connection, connection.cursor() as cursor:
            check_registration(cursor, definition.name, stated)
    except PipelineDefinitionError as error:
        report.problems.append(str(error))
    driver = newest_driver(connection, definition.name)
    if driver is not None and driver.is_alive():
        report.notes.append(f"its driver runs on {driver.host}: what is changed here counts when it is restarted")


def _landed(name: str, source: Source, folder: Path) -> str:
    try:
        names = [path.name for _, path in zip(range(_MOST_COUNTED), folder.iterdir(), strict=False)]
    except FileNotFoundError:
        return f"{name}: {folder} is not there yet; the stream makes it when it starts"
    except OSError as error:
        return f"{name}: {folder} can't be read here: {error.strerror}"
    landed = sum(map(is_landed, names))
    more = "at least " if len(names) == _MOST_COUNTED else ""
    links = sum((folder / name).is_symlink() for name in names)
    told = f"{name}: {more}{landed:,} landed files in {folder} ({source.format})"
    if links:
        told += f"; {more}{links:,} links there are not read: let the files themselves land"
    if os.geteuid() == 0 and folder.stat().st_mode & 0o022:
        told += "; other users may write there, and the driver runs as root: run it as a user of its own"
    return told


def _told_of_tables(
    definition: PipelineDefinition, tables: PipelineTables, outcomes: Mapping[str, WatchOutcome]
) -> Iterator[str]:
    yield f"{definition.fact.table} takes the facts, told apart by {', '.join(definition.source.event_id)}"
    for lookup, spec in zip(definition.lookups, tables.relations, strict=True):
        unnoted = outcomes[lookup.relation].refusal
        held = said_of_memory(lookup, spec, unnoted=unnoted)
        held = held or f"{spec.row_count:,} tuples, of which none stays in memory"
        yield f"{lookup.relation}: {held}"
        if spec.page_refusal is not None:
            yield f"{lookup.relation} is not read by pages: {spec.page_refusal}"
