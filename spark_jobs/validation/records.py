"""Validations in the control schema: begun, closed with their results, or found to be cut off."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2.extras
from psycopg2 import extensions

from spark_jobs.control.work_under_way import VALIDATION, try_lock, unlock, wait_for_lock
from spark_jobs.validation.report import Report

_log = logging.getLogger(__name__)

_CUT_OFF = "It was cut off before it came to a result. What it was to look at is validated again."


def is_registered(connection: extensions.connection, pipeline: str) -> bool:
    """Whether the warehouse knows the pipeline; it does as soon as a driver was started."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM freshet.pipeline WHERE name = %s", [pipeline])
        return cursor.rowcount > 0


def end_cut_off(connection: extensions.connection) -> int:
    """Close the validations, of any pipeline, that still seem to run and have no session at work; how many they were.

    Those of which nothing is left to validate would seem to run for ever: no other one begins.

    Args:
        connection: in autocommit mode.
    """
    ended = 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT pipeline FROM freshet.validation WHERE result = 'running'")
        for (pipeline,) in cursor.fetchall():
            if try_lock(cursor, VALIDATION, pipeline):
                ended += _close_cut_off(cursor, pipeline)
                unlock(cursor, VALIDATION, pipeline)
    return ended


@contextmanager
def one_at_a_time(connection: extensions.connection, pipeline: str) -> Iterator[None]:
    """Wait until no other session validates the pipeline, and keep others waiting for the time of the block.

    The end of the session ends it too, so a process that is killed keeps none waiting.
    """
    with connection, connection.cursor() as cursor:
        if not try_lock(cursor, VALIDATION, pipeline):
            _log.info("Another validation of %s is at work; waiting for its end.", pipeline)
            wait_for_lock(cursor, VALIDATION, pipeline)
    yield
    with connection, connection.cursor() as cursor:
        unlock(cursor, VALIDATION, pipeline)


def begin(connection: extensions.connection, pipeline: str, scope: str, airflow_run: str | None) -> int:
    """Record that a validation begins; those of the pipeline that still seem to run were cut off.

    Args:
        connection: its session validates the pipeline alone.
        pipeline: its name.
        scope: which facts it will look at, in words.
        airflow_run: id of the DAG run that it belongs to.

    Returns:
        its number.
    """
    with connection, connection.cursor() as cursor:
        _close_cut_off(cursor, pipeline)
        cursor.execute(
            "INSERT INTO freshet.validation (pipeline, airflow_run, scope) VALUES (%s, %s, %s) RETURNING validation_id",
            [pipeline, airflow_run, scope],
        )
        ((validation_id,),) = cursor.fetchall()
    return validation_id


def close(connection: extensions.connection, report: Report, loads: Sequence[int]) -> None:
    """Record what came of a validation, and which loads it has looked at: all of that or nothing.

    Args:
        connection: to the warehouse; this is one transaction on it.
        report: what came of it.
        loads: numbers of the batches and reprocessing runs that need not be validated again.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE freshet.validation SET result = %s, scope = %s, closed_at = clock_timestamp(), facts = %s,
                expectations = %s, failed = %s, error = %s, page = %s
            WHERE validation_id = %s
            """,
            [
                report.result,
                report.scope,
                report.facts,
                len(report.findings),
                len(report.failures),
                report.error,
                report.page,
                report.validation_id,
            ],
        )
        psycopg2.extras.execute_values(
            cursor,
            "INSERT INTO freshet.validation_result "
            "(validation_id, number, expectation, columns, passed, unexpected, examples, message) VALUES %s",
            [
                (
                    report.validation_id,
                    number,
                    finding.expectation,
                    list(finding.columns),
                    finding.passed,
                    finding.unexpected,
                    psycopg2.extras.Json(finding.examples, dumps=lambda examples: json.dumps(examples, default=str)),
                    finding.message,
                )
                for number, finding in enumerate(report.findings, 1)
            ],
        )
        for table in ("batch", "reprocessing_run"):
            cursor.execute(
                f"UPDATE freshet.{table} SET validation_id = %s WHERE batch_no = ANY (%s)",
                [report.validation_id, list(loads)],
            )


def _close_cut_off(cursor: extensions.cursor, pipeline: str) -> int:
    """Close the running validations of a pipeline whose lock the session holds; how many there were."""
    cursor.execute(
        "UPDATE freshet.validation SET result = 'cut off', error = %s, closed_at = clock_timestamp() "
        "WHERE pipeline = %s AND result = 'running'",
        [_CUT_OFF, pipeline],
    )
    return cursor.rowcount
