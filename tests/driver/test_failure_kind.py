"""What is in a batch's way, by the error that reached the driver, or by what Spark tells of a task's error."""

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import errors

from spark_jobs.errors import FreshetError, LoadBlockedError, SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.stages.failure_kind import FailureKind, failure_kind
from spark_jobs.task_errors import lost_its_process, told_by

BLOCKING = [
    LoadBlockedError("warehouse.fact refuses 4,000 of 4,000 tuples"),
    SchemaMismatchError("no such column"),
    errors.DiskFull("could not extend file: No space left on device"),
    errors.OutOfMemory("out of memory"),
    errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"),
    errors.InsufficientPrivilege("permission denied for table customer"),
    errors.UndefinedTable("relation does not exist"),
]
AWAY = [
    WarehouseUnavailableError("it did not answer"),
    psycopg2.OperationalError("server closed the connection unexpectedly"),
    psycopg2.InterfaceError("connection already closed"),
    psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"),
    errors.AdminShutdown("terminating connection due to administrator command"),
    errors.DeadlockDetected("deadlock detected"),
]
FAULTS = [FreshetError("no"), ValueError("no"), KeyError("no"), errors.UniqueViolation("twice"), MemoryError()]


def raised_in_a_task(error: Exception) -> Exception:
    """What Spark makes of an error of a task."""
    module = type(error).__module__
    name = type(error).__qualname__ if module == "builtins" else f"{module}.{type(error).__qualname__}"
    return RuntimeError(
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times: org.apache.spark.api.python."
        f'PythonException: Traceback (most recent call last):\n  File "worker.py", line 1, in main\n{name}: {error}\n'
        "\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala)\n"
        "Driver stacktrace:"
    )


@pytest.mark.parametrize(
    ("error", "found"),
    [(error, found) for errors, found in ((BLOCKING, FailureKind.BLOCKED), (AWAY, FailureKind.AWAY), (FAULTS, None))
     for error in errors],
)  # fmt: skip
def test_an_error_of_a_task_is_judged_by_what_the_task_raised(error: Exception, found: FailureKind | None) -> None:
    assert failure_kind(raised_in_a_task(error)) is found
    if str(error):
        assert told_by(raised_in_a_task(error)) == str(error)


@pytest.mark.parametrize("error", [error for error in (*BLOCKING, *AWAY) if type(error).__module__ != errors.__name__])
def test_an_error_of_the_driver_is_judged_by_itself(error: Exception) -> None:
    assert failure_kind(error) is (FailureKind.BLOCKED if error in BLOCKING else FailureKind.AWAY)


def test_the_words_of_an_error_of_several_lines_are_told_on_one() -> None:
    assert told_by(SchemaMismatchError("It does not fit:\n  no such table")) == "It does not fit: no such table"


@pytest.mark.parametrize(
    "error", [MemoryError(), MemoryError("no"), pa.lib.ArrowMemoryError("malloc of size 9 failed")]
)
def test_a_task_that_lacked_memory_has_lost_its_process_as_one_that_died(error: Exception) -> None:
    assert lost_its_process(raised_in_a_task(error))


@pytest.mark.parametrize("error", [*BLOCKING, *AWAY, *FAULTS[:-1]])
def test_no_other_error_of_a_task_has(error: Exception) -> None:
    assert not lost_its_process(raised_in_a_task(error))
