"""All that can be told of a pipeline before its stream starts: what does not fit, and what it will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from psycopg2 import extensions

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.control.registration import check_registration
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_keys import read_alike
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.join_folder import check_join_state
from spark_jobs.errors import PipelineDefinitionError, SchemaMismatchError, StateDamagedError
from spark_jobs.lookup.changes.triggers import WatchOutcome, look_at_relations
from spark_jobs.lookup.planning.memory import said_of_memory
from spark_jobs.settings import Home
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.kinds import kind_of
from spark_jobs.warehouse.connection import connect


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
    for stream in SourceStream.all_of(definition, home):
        for note in kind_of(stream.source).check(stream, stream.name or "events"):
            (report.problems if note.is_problem else report.notes).append(note.text)
    for read, names in read_alike(definition.streams).items():
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


def _told_of_tables(
    definition: PipelineDefinition, tables: PipelineTables, outcomes: Mapping[str, WatchOutcome]
) -> Iterator[str]:
    yield f"{definition.fact.table} takes the facts, told apart by {', '.join(definition.tuples.event_id)}"
    for lookup, spec in zip(definition.lookups, tables.relations, strict=True):
        unnoted = outcomes[lookup.relation].refusal
        held = said_of_memory(lookup, spec, unnoted=unnoted)
        held = held or f"{spec.row_count:,} tuples, of which none stays in memory"
        yield f"{lookup.relation}: {held}"
        if spec.page_refusal is not None:
            yield f"{lookup.relation} is not read by pages: {spec.page_refusal}"
