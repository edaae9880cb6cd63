"""Errors of Spark tasks as the driver sees them."""

from __future__ import annotations

import builtins
import re

import psycopg2
import pyarrow.lib
from psycopg2 import errors as psycopg2_errors

from spark_jobs import errors as freshet_errors

_LONGEST_REASON = 1000
_TRACEBACK = "Traceback (most recent call last):"
_LOST_PROCESSES = ("Python worker exited unexpectedly", "exited caused by one of the running tasks")
_JAVA_TRACE = "\n\tat "
# The line of a traceback that tells the error, inside what Spark says about the task that raised it.
_ERROR_LINE = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Exit)|psycopg2\.errors\.\w+)\b.*$", re.MULTILINE)
_HOMES = {module.__name__: module for module in (builtins, psycopg2, psycopg2_errors, pyarrow.lib, freshet_errors)}


def cause_of(error: BaseException) -> str:
    """What went wrong in the task, without Spark's traces around it, short enough for a reason."""
    line = _error_line(error)
    if line is None:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        line = f"{type(error).__name__}: {first}"
    return line[:_LONGEST_REASON].strip()


def kind_of(error: BaseException) -> type[BaseException]:
    """Class of the error that a task raised, where it is Python's, arrow's, psycopg2's or ours; else of this error."""
    line = _error_line(error)
    if line is None:
        return type(error)
    module, _, name = line.partition(":")[0].rpartition(".")
    found = getattr(_HOMES.get(module or builtins.__name__), name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else type(error)


def lost_its_process(error: BaseException) -> bool:
    """Whether the task took its Python process, or its executor, down with it, or had not enough memory."""
    return any(lost in str(error) for lost in _LOST_PROCESSES) or issubclass(kind_of(error), MemoryError)


def told_by(error: BaseException) -> str:
    """The message of the error that went wrong, without its class, on one line."""
    line = _error_line(error)
    message = str(error) if line is None else line.partition(": ")[2]
    return " ".join(message.split())[:_LONGEST_REASON]


def _error_line(error: BaseException) -> str | None:
    _, traceback, trace = str(error).partition(_TRACEBACK)
    if not traceback:
        return None
    # Of errors that caused one another Python tells the one that was raised last. Java's trace comes after.
    lines = [found.group(0) for found in _ERROR_LINE.finditer(trace.partition(_JAVA_TRACE)[0])]
    return lines[-1] if lines else None
