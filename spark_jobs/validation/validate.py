"""One validation, from the choice of facts to its record, in one read-only snapshot of the warehouse."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg2
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import NotValidatedError, SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.settings import Home
from spark_jobs.validation import records
from spark_jobs.validation.expectations import PatternRefusedError, check_patterns, expectations_of
from spark_jobs.validation.fact_columns import FactColumns, read_fact_columns
from spark_jobs.validation.report import Report, Result
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.window import Window, read_window
from spark_jobs.warehouse.connection import address, connect

_log = logging.getLogger(__name__)

STATEMENT_TIMEOUT = timedelta(minutes=10)


def validate_facts(
    definition: PipelineDefinition,
    url: str,
    home: Home,
    selection: Selection = Selection(),  # noqa: B008  frozen
    *,
    airflow_run: str | None = None,
) -> Report:
    """Check facts against the pipeline's expectations, and record what came of it.

    Loads whose facts were looked at are marked in the ledger in the same transaction that records the results, so
    a validation that is cut off is made again. Two of one pipeline wait for each other. Loading goes on meanwhile.

    Args:
        definition: the pipeline.
        url: libpq URL of the warehouse.
        home: the installation, where the Data Docs are written.
        selection: which facts.
        airflow_run: id of the DAG run that it belongs to.

    Raises:
        WarehouseUnavailableError: the warehouse does not answer, or went away; nothing is recorded as validated.
        NotValidatedError: the user lacks rights in the control schema.
    """
    try:
        return _validate(definition, url, home, selection, airflow_run)
    except psycopg2.errors.InsufficientPrivilege as error:
        raise NotValidatedError(
            f"The user may not validate {definition.name}: {error}"
            "Make it a member of the role freshet_validator, and run `freshet migrate` so that it gets its rights."
        ) from error
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise WarehouseUnavailableError(
            f"The warehouse at {address(url)} broke off a validation of {definition.name}: {error}"
        ) from error


def _validate(
    definition: PipelineDefinition, url: str, home: Home, selection: Selection, airflow_run: str | None
) -> Report:
    name = f"freshet validate {definition.name}"
    with closing(connect(url, application_name=name)) as connection:
        if not records.is_registered(connection, definition.name):
            return Report(definition.name, None, "no data", f"{selection}: the stream has never been started")
        with records.one_at_a_time(connection, definition.name):
            validation_id = records.begin(connection, definition.name, str(selection), airflow_run)
            loads: tuple[int, ...] = ()
            try:
                with snapshot(url, name) as reading:
                    report, loads = _look(definition, reading, home, selection, validation_id)
                    if reading.closed:  # Great Expectations takes an outage for failed expectations
                        raise psycopg2.OperationalError("the connection was lost.")
            except (SchemaMismatchError, PatternRefusedError) as error:
                report = Report(definition.name, validation_id, "error", str(selection), error=str(error))
            records.close(connection, report, loads)
    return report


def _look(
    definition: PipelineDefinition,
    reading: extensions.connection,
    home: Home,
    selection: Selection,
    validation_id: int,
) -> tuple[Report, tuple[int, ...]]:
    """What came of it, and the loads that are done with."""
    columns = read_fact_columns(reading, definition)
    window = read_window(reading, definition.name, selection, columns)
    if window is None:
        return Report(definition.name, validation_id, "no data", str(selection)), ()
    report = _check(definition, reading, home, columns, window, selection, validation_id)
    return report, () if report.result == "error" else window.loads


def _check(
    definition: PipelineDefinition,
    reading: extensions.connection,
    home: Home,
    columns: FactColumns,
    window: Window,
    selection: Selection,
    validation_id: int,
) -> Report:
    # Great Expectations takes seconds to import: not before there is something to validate.
    from spark_jobs.validation.gx.findings import findings_of
    from spark_jobs.validation.gx.suite import Suite
    from spark_jobs.validation.gx.suite_run import run_suite

    suite = Suite(reading, definition.name, columns, window, selection)
    expectations = expectations_of(reading, definition, columns, window)
    check_patterns(reading, columns, expectations)
    stated = suite.stated(expectations)
    result, page = run_suite(
        reading,
        definition.name,
        suite.facts,
        columns.event_id,
        stated,
        run_name=f"validation-{validation_id}",
        folder=home.data_docs(definition.name),
    )
    findings = tuple(findings_of(result, stated))
    error = next((finding.message for finding in findings if finding.error is not None), None)
    outcome: Result = "error" if error else "passed" if all(finding.passed for finding in findings) else "failed"
    return Report(definition.name, validation_id, outcome, window.scope, window.facts, findings, error=error, page=page)


@contextmanager
def snapshot(url: str, application_name: str) -> Iterator[extensions.connection]:
    """A session inside one transaction, which can't write and sees none of what is committed meanwhile.

    The session is in autocommit mode, so that commits and rollbacks by its users do nothing: the
    transaction is begun and ended here. Loading goes on beside it; plain reads block nothing.

    Args:
        url: libpq URL of the warehouse.
        application_name: how pg_stat_activity shows the session.

    Raises:
        WarehouseUnavailableError: the warehouse does not answer.
    """
    with closing(connect(url, application_name=application_name)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false), set_config('timezone', 'UTC', false)",
                           [str(int(STATEMENT_TIMEOUT.total_seconds() * 1000))])  # fmt: skip
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection
