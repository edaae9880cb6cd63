"""Batch jobs let the streams go first: they give up their place in the queue for the processor."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LOW_PRIORITY = 5
"""Nice value of a batch job. Of a core that a stream (nice 0) wants, too, it gets a quarter: with less, a busy machine
would take minutes to start its Java."""

_JAVA = "java"


def yield_processor(nice: int = LOW_PRIORITY) -> int:
    """Lower the priority of this process, and of the Java process around it, if spark-submit started it.

    A batch job calls this before anything else. Linux gives every thread a priority of its own, and a new thread or
    process that of the thread which made it: so Java's threads that are there now are lowered one by one, and
    those to come follow, as do the Python workers. It is never an error not to be able to; a priority that
    is lower already stays.

    Args:
        nice: the nice value, up to 19 (lowest priority).

    Returns:
        threads whose priority is now low.
    """
    processes = [os.getpid()]
    if _is_java(os.getppid()):
        processes.append(os.getppid())
    return sum(_lower(thread, nice) for process in processes for thread in _threads(process))


def _is_java(process: int) -> bool:
    """Whether the process runs Java; false where that can't be determined."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/exe").readlink().name == _JAVA
    return False


def _threads(process: int) -> list[int]:
    try:
        return [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]
    except OSError:  # no Linux, or the process has ended
        return [process]


def _lower(thread: int, nice: int) -> bool:
    """Whether the thread's priority is low now. It may have ended meanwhile, or belong to another user."""
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) < nice:
            os.setpriority(os.PRIO_PROCESS, thread, nice)
        return True
    return False
