"""A stream-stream join whose state outlives its process: the calls that it was given, and a snapshot now and then.

    snapshot-12   calls-13   calls-14   calls-15   snapshot-16   calls-17      version 15 = snapshot 12 + calls 13 to 15

An operator does the same whenever it is given the same calls. So a checkpoint need not hold what they changed, which
may be anywhere in the state: it holds the calls since the last one, and costs what their tuples do. Once the calls
take more room than the last snapshot another follows, so that a restore reads no more than twice the state.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.durable_files import FileKind, checked_content, with_header, write_durably
from spark_jobs.errors import CacheDamagedError, JoinStateError, StateDamagedError
from spark_jobs.join_state.spill_files import STATE_ADVICE, SpillFiles
from spark_jobs.joins.stream_stream.base import Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.patterns import Pattern
from spark_jobs.joins.stream_stream.spill import SpillStore

MakeJoin = Callable[[SpillStore], StreamStreamJoin]

_SNAPSHOT = FileKind(b"FRSHSNP\0", 1, "snapshot of a join's state", STATE_ADVICE)
_CALLS = FileKind(b"FRSHCLS\0", 1, "record of calls of a join", STATE_ADVICE)
_ARRIVE, _PUNCTUATE, _REACH, _REQUEST_PROPAGATION, _ADVANCE, _FINISH = range(6)
_COLUMNS = ("ids", "keys", "highs", "starts", "ends")
# Below this many bytes of calls a snapshot is never due: it would be many small files for nothing.
_LEAST_SNAPSHOT_BYTES = 1 << 20


class _Call(NamedTuple):
    """A call of the join: which, of which stream, and what was given."""

    kind: int
    stream: int = 0
    given: Tuples | Pattern | int = 0


class DurableJoin:
    """A join in a folder; its life is the join's own, and `checkpoint` makes a version of it.

    One process at a time uses a folder. A version is whole on the disk when `checkpoint` returns; what was done since
    is lost when the process ends, and so are the results of it if the caller has not stored them either.

    Args:
        folder: the state's own; made if it is not there.
        make: makes the operator, always alike, with the disk that it is given.
        version: which version to go on from; None for the newest. 0 is the one before any tuple. Later ones are
            deleted: they are not part of the history any more.
        page_bytes: of the pages that are spilled.

    Raises:
        StateDamagedError: the version is not there, or a file of it is damaged.
    """

    def __init__(self, folder: Path, make: MakeJoin, *, version: int | None = None, page_bytes: int = 65_536) -> None:
        self._folder = folder
        self._spill = SpillFiles(folder / "extents", page_bytes)
        self._join = make(self._spill)
        self._calls: list[_Call] = []
        self._snapshot_bytes = 0
        self._calls_bytes = 0  # Since the last snapshot.
        self._finishing = False
        newest = max((*self._numbers("snapshot"), *self._numbers("calls"), 0))
        self.version = newest if version is None else version
        if not 0 <= self.version <= newest:
            raise StateDamagedError(
                f"{folder} holds versions up to {newest}: there is no version {self.version} to restore"
            )
        self._restore()

    @property
    def join(self) -> StreamStreamJoin:
        """The operator, to be asked; not to be changed but through this object."""
        return self._join

    def arrive(self, stream: int, tuples: Tuples) -> Results:
        """Take tuples, as the join does."""
        results = self._join.arrive(stream, tuples)
        self._calls.append(_Call(_ARRIVE, stream, tuples))
        return results

    def punctuate(self, stream: int, pattern: Pattern) -> Results:
        """Take a punctuation, as the join does."""
        results = self._join.punctuate(stream, pattern)
        self._calls.append(_Call(_PUNCTUATE, stream, pattern))
        return results

    def reach(self, stream: int, start: int) -> Results:
        """Learn how far a stream has come, as the join does."""
        results = self._join.reach(stream, start)
        self._calls.append(_Call(_REACH, stream, start))
        return results

    def request_propagation(self) -> Results:
        """Hand on all punctuations that may be."""
        self._calls.append(_Call(_REQUEST_PROPAGATION))
        return self._join.request_propagation()

    def advance(self) -> Results:
        """Do a step of background work."""
        self._calls.append(_Call(_ADVANCE))
        return self._join.advance()

    def finish(self) -> Iterator[Results]:
        """End the join's life; a checkpoint is possible again when all of it has been taken."""
        self._finishing = True
        self._calls.append(_Call(_FINISH))
        yield from self._join.finish()
        self._finishing = False

    def checkpoint(self) -> int:
        """Make all that was done a version; its number. O(bytes of the tuples since the last one), amortised.

        Raises:
            JoinStateError: `finish` has begun and not ended.
            OSError: the disk is full or fails; the version before it is as it was.
        """
        if self._finishing:
            raise JoinStateError("a join that is finishing has no version: take all of `finish` first")
        self._spill.sync()
        calls = _packed(_calls_as_arrays(self._calls))
        number = self.version + 1
        if self._calls_bytes + calls.size > max(_LEAST_SNAPSHOT_BYTES, self._snapshot_bytes):
            state = {f"join.{name}": array for name, array in self._join.state().items()}
            state |= {f"spill.{name}": array for name, array in self._spill.state().items()}
            snapshot = _packed(state)
            write_durably(self._path("snapshot", number), with_header(_SNAPSHOT, number, snapshot))
            self._snapshot_bytes, self._calls_bytes = snapshot.size, 0
        else:
            write_durably(self._path("calls", number), with_header(_CALLS, number, calls))
            self._calls_bytes += calls.size
        self.version = number
        self._calls = []
        return number

    def forget(self, before: int) -> None:
        """Delete the versions before one, which stays; the files of extents that no version left names go too."""
        needed = max((n for n in self._numbers("snapshot") if n <= before), default=0)
        for kind in ("snapshot", "calls"):
            for number in self._numbers(kind):
                if number < needed:
                    self._path(kind, number).unlink(missing_ok=True)
        self._clean()

    def _restore(self) -> None:
        """Bring the operator to the version: from the last snapshot up to it, by repeating the calls since."""
        first = max((number for number in self._numbers("snapshot") if number <= self.version), default=0)
        if first:
            state = self._read("snapshot", first)
            self._snapshot_bytes = sum(array.nbytes for array in state.values())
            self._spill.load(state["spill.counts"], state["spill.live"])
            self._join.load({name.removeprefix("join."): state[name] for name in state if name.startswith("join.")})
        for number in range(first + 1, self.version + 1):
            arrays = self._read("calls", number)
            self._calls_bytes += sum(array.nbytes for array in arrays.values())
            for call in _calls_from_arrays(arrays):
                _repeat(self._join, call)
        for kind in ("snapshot", "calls"):
            for number in self._numbers(kind):
                if number > self.version:
                    self._path(kind, number).unlink()
        self._clean()

    def _clean(self) -> None:
        kept = [self._read("snapshot", number)["spill.live"][:, 0] for number in self._numbers("snapshot")]
        self._spill.clean(int(extent) for extents in kept for extent in extents)

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(path.suffix[1:]) for path in self._folder.glob(f"{kind}.*") if path.suffix[1:].isdigit())

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / f"{kind}.{number:012}"

    def _read(self, kind: str, number: int) -> dict[str, NDArray[Any]]:
        path = self._path(kind, number)
        try:
            content = checked_content(_SNAPSHOT if kind == "snapshot" else _CALLS, number, path)
        except FileNotFoundError as error:
            raise StateDamagedError(
                f"{path} is missing: version {self.version} can't be restored without it"
            ) from error
        except CacheDamagedError as error:
            raise StateDamagedError(str(error)) from error
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)


def _packed(arrays: dict[str, NDArray[Any]]) -> pa.Buffer:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return pa.py_buffer(stream.getbuffer())


def _calls_as_arrays(calls: list[_Call]) -> dict[str, NDArray[Any]]:
    """Calls as arrays: each with a number, and the columns of all tuples and patterns one after the other.

    The number is how many tuples or ranges were given, or the start that was reached.
    """
    tuples = [call.given for call in calls if isinstance(call.given, Tuples)]
    patterns = [call.given for call in calls if isinstance(call.given, Pattern)]
    arrays: dict[str, NDArray[Any]] = {
        "calls": np.array([(call.kind, call.stream, _number(call.given)) for call in calls], np.int64).reshape(-1, 3),
        "firsts": np.concatenate([np.empty(0, np.int64), *(pattern.firsts for pattern in patterns)]),
        "lasts": np.concatenate([np.empty(0, np.int64), *(pattern.lasts for pattern in patterns)]),
    }
    for name in _COLUMNS:
        if tuples and getattr(tuples[0], name) is not None:
            arrays[name] = np.concatenate([getattr(given, name) for given in tuples])
    return arrays


def _calls_from_arrays(arrays: dict[str, NDArray[Any]]) -> Iterator[_Call]:
    columns = [name for name in _COLUMNS if name in arrays]
    tuples, ranges = 0, 0
    for kind, stream, number in arrays["calls"].tolist():
        given: Tuples | Pattern | int = number
        if kind == _ARRIVE:
            given = Tuples(**{name: arrays[name][tuples : tuples + number] for name in columns})
            tuples += number
        elif kind == _PUNCTUATE:
            part = slice(ranges, ranges + number)
            given = Pattern(arrays["firsts"][part], arrays["lasts"][part])
            ranges += number
        yield _Call(kind, stream, given)


def _number(given: Tuples | Pattern | int) -> int:
    if isinstance(given, Tuples):
        return len(given.ids)
    return len(given) if isinstance(given, Pattern) else given


def _repeat(join: StreamStreamJoin, call: _Call) -> None:
    kind, stream, given = call
    if isinstance(given, Tuples):
        join.arrive(stream, given)
    elif isinstance(given, Pattern):
        join.punctuate(stream, given)
    elif kind == _REACH:
        join.reach(stream, given)
    elif kind == _REQUEST_PROPAGATION:
        join.request_propagation()
    elif kind == _ADVANCE:
        join.advance()
    else:
        for _ in join.finish():
            pass
