"""The process that looks for poison: each try is a fork of it, which may die.

The driver starts it with a pickled `TrialRequest` on its standard input. Its answer, on its standard output, is JSON:
of each slice the poison that was found, as the ledger states it.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import psutil

from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.optional_imports import do_without_pandas_and_scipy
from spark_jobs.source.slices import SourceSlice
from spark_jobs.stages.poison_search import Death, find_poison
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.stages.worker_daemon import load_kernels, spare_what_is_loaded

_ENDED_WELL, _LACKED_MEMORY = 0, 66
# Of its own accord a process gets no others; SIGKILL and the like come from outside, and say nothing of a record.
_OWN_SIGNALS = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.001, 0.05


@dataclass(frozen=True)
class TrialRequest:
    """What to look for poison in.

    Attributes:
        pieces: slices, each with what reads it.
        most_memory: bytes that a try may have besides what all of them share.
        seconds: how long the search may take.
    """

    pieces: Sequence[tuple[TrialReading, SourceSlice]]
    most_memory: int
    seconds: float

    def found(self) -> list[list[PoisonSpan]]:
        """The poison of each slice. Each try is a fork of this process."""
        until = time.monotonic() + self.seconds

        def is_late() -> bool:
            return time.monotonic() >= until

        def find(trial: TrialReading, piece: SourceSlice) -> list[PoisonSpan]:
            def reads(part: SourceSlice) -> Death | None:
                return None if is_late() else self._try(trial, part, until)

            return find_poison(piece, reads, is_late, indivisible=not trial.reader.source.record_format.is_divisible)

        return [find(*each) for each in self.pieces]

    def _try(self, trial: TrialReading, part: SourceSlice, until: float) -> Death | None:
        process_id = os.fork()
        if not process_id:
            _read_and_exit(trial, part, self.most_memory)
        return self._death(_status_of(process_id, until))

    def _death(self, status: int | None) -> Death | None:
        if status is None:
            return None
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return Death(f"signal {signal.Signals(number).name}") if number in _OWN_SIGNALS else None
        code = os.WEXITSTATUS(status)
        if code == _ENDED_WELL:
            return None
        if code == _LACKED_MEMORY:
            return Death(f"it needs more than {self.most_memory >> 20} MiB of memory", is_certain=False)
        return Death(f"exit status {code}")


def _read_and_exit(trial: TrialReading, part: SourceSlice, most_memory: int) -> NoReturn:
    """Read a slice in a fork, which ends with it. What it raises is no death: a task would raise it, too."""
    code = _ENDED_WELL
    try:
        with suppress(OSError):  # should the machine run out of memory, it is not to choose another process
            Path("/proc/self/oom_score_adj").write_text("1000")
        # Of what counts, libraries have set some aside that is not in use.
        most = psutil.Process().memory_info().data + most_memory
        with suppress(ValueError):  # it has a lower limit already
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        trial(part)
    except MemoryError:
        code = _LACKED_MEMORY
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def _status_of(process_id: int, until: float) -> int | None:
    """How a fork ended, as `os.wait` tells it; None where it is ended, since the time is over."""
    pause = _SHORTEST_WAIT_SECONDS
    while True:
        ended, status = os.waitpid(process_id, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() >= until:
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_WAIT_SECONDS)


def main() -> None:
    """Answer the request."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        request: TrialRequest = pickle.load(sys.stdin.buffer)
        do_without_pandas_and_scipy()
        load_kernels()
        spare_what_is_loaded()
        json.dump(request.found(), answer)


if __name__ == "__main__":
    main()
