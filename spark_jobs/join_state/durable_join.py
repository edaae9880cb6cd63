"""A stream-stream join whose state outlives its process: the calls that it was given, and a snapshot now and then.

    snapshot-12   calls-13   calls-14   calls-15   snapshot-16   calls-17      version 15 = snapshot 12 + calls 13 to 15

An operator does the same whenever it is given the same calls. So a checkpoint need not hold what they changed, which
may be anywhere in the state: it holds the calls since the last one, and costs what their tuples do. Once the calls
take more room than the last snapshot another follows, so that a restore reads no more than twice the state.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.durable_files import FileKind, checked_content, with_header, write_durably
from spark_jobs.errors import CacheDamagedError, JoinStateError, MemoryBudgetError, StateDamagedError
from spark_jobs.join_state.spill_files import STATE_ADVICE, SpillFiles
from spark_jobs.joins.stream_stream.base import Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.patterns import Pattern
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.structures.nested_state import nested, part_of

MakeJoin = Callable[[SpillStore], StreamStreamJoin]
_Outcome = TypeVar("_Outcome")

_SNAPSHOT = FileKind(b"FRSHSNP\0", 1, "snapshot of a join's state", STATE_ADVICE)
_CALLS = FileKind(b"FRSHCLS\0", 1, "record of calls of a join", STATE_ADVICE)
_KINDS = ("snapshot", "calls")
# To be raised when an operator comes to do anything else for the same calls: they could not be repeated.
_BEHAVIOUR = 1
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
    is lost when the process ends, and so are the results of it if the caller has not stored them either. The tuples
    since the last checkpoint are kept in memory, beside the join's budget.

    A call that fails by anything but a refusal may have been half done: open the folder again then.

    Args:
        folder: the state's own; made if it is not there.
        make: makes the operator, with the disk that it is given. It has to be the same each time that a folder is
            opened, policies included: what it does differently would tear what was done from what comes. Operator,
            streams, predicate, memory and pages are compared with those that the folder was made with.
        version: which version to go on from; None for the newest. 0 is the one before any tuple. Later ones are
            deleted: they are not part of the history any more.
        page_bytes: of the pages that are spilled.

    Raises:
        StateDamagedError: the version is not there, a file of it is damaged, or the folder is another operator's.
    """

    def __init__(self, folder: Path, make: MakeJoin, *, version: int | None = None, page_bytes: int = 65_536) -> None:
        self._folder = folder
        self._spill = SpillFiles(folder / "extents", page_bytes)
        self._join = make(self._spill)
        self._calls: list[_Call] = []
        self._snapshot_bytes = 0
        self._calls_bytes = 0  # Since the last snapshot.
        self._finishing = False
        self._broken = False
        # For each snapshot the extents that it names; None where it can't be read.
        self._named: dict[int, frozenset[int] | None] = {}
        self._expect_operator(page_bytes)
        newest = max((number for number, _ in self._files()), default=0)
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
        # Copied: the caller may use its arrays for what comes next.
        call = _Call(_ARRIVE, stream, tuples.copied())
        return self._done(call, lambda: self._join.arrive(stream, tuples))

    def punctuate(self, stream: int, pattern: Pattern) -> Results:
        """Take a punctuation, as the join does."""
        return self._done(_Call(_PUNCTUATE, stream, pattern), lambda: self._join.punctuate(stream, pattern))

    def reach(self, stream: int, start: int) -> Results:
        """Learn how far a stream has come, as the join does."""
        return self._done(_Call(_REACH, stream, start), lambda: self._join.reach(stream, start))

    def request_propagation(self) -> Results:
        """Hand on all punctuations that may be."""
        return self._done(_Call(_REQUEST_PROPAGATION), self._join.request_propagation)

    def advance(self) -> Results:
        """Do a step of background work."""
        return self._done(_Call(_ADVANCE), self._join.advance)

    def finish(self) -> Iterator[Results]:
        """End the join's life; a checkpoint is possible again when all of it has been taken."""
        left = self._done(_Call(_FINISH), self._join.finish)
        self._finishing = True
        return self._taken(left)

    def _taken(self, left: Iterator[Results]) -> Iterator[Results]:
        yield from left
        self._finishing = False

    def _done(self, call: _Call, do: Callable[[], _Outcome]) -> _Outcome:
        """Do a call and note it. One that is refused has done nothing; any other failure may have been half done."""
        self._expect_whole()
        try:
            outcome = do()
        except (JoinStateError, MemoryBudgetError):
            raise
        except BaseException:
            self._broken = True
            raise
        self._calls.append(call)
        return outcome

    def _expect_whole(self) -> None:
        if self._broken:
            raise JoinStateError(f"a call failed amid its work: open {self._folder} again, at its last version")

    def checkpoint(self) -> int:
        """Make all that was done a version; its number. O(bytes of the tuples since the last one), amortised.

        Raises:
            JoinStateError: `finish` has begun and not ended, or a call has failed.
            OSError: the disk is full or fails; the version before it is as it was.
        """
        if self._finishing:
            raise JoinStateError("a join that is finishing has no version: take all of `finish` first")
        self._expect_whole()
        self._spill.sync()
        calls = _packed(_calls_as_arrays(self._calls))
        number = self.version + 1
        if self._calls_bytes + calls.size > max(_LEAST_SNAPSHOT_BYTES, self._snapshot_bytes):
            state = nested("join", self._join.state()) | nested("spill", self._spill.state())
            snapshot = _packed(state)
            write_durably(self._path("snapshot", number), with_header(_SNAPSHOT, number, snapshot))
            self._snapshot_bytes, self._calls_bytes = snapshot.size, 0
            self._named[number] = self._spill.extents
        else:
            write_durably(self._path("calls", number), with_header(_CALLS, number, calls))
            self._calls_bytes += calls.size
        self.version = number
        self._calls = []
        return number

    def forget(self, before: int) -> None:
        """Delete the versions before one, which stays; the files of extents that no version left names go too.

        O(versions and extents that there are).
        """
        needed = max((n for n in self._numbers("snapshot") if n <= before), default=0)
        for number, path in self._files():
            if number < needed:
                path.unlink(missing_ok=True)
                self._named.pop(number, None)
        self._clean()

    def _restore(self) -> None:
        """Bring the operator to the version: from the last snapshot up to it, by repeating the calls since."""
        first = max((number for number in self._numbers("snapshot") if number <= self.version), default=0)
        if first:
            state = self._read("snapshot", first)
            self._snapshot_bytes = sum(array.nbytes for array in state.values())
            self._spill.load(state["spill.counts"], state["spill.live"])
            self._join.load(part_of(state, "join"))
            self._named[first] = self._spill.extents
        for number in range(first + 1, self.version + 1):
            arrays = self._read("calls", number)
            self._calls_bytes += sum(array.nbytes for array in arrays.values())
            for call in _calls_from_arrays(arrays):
                _repeat(self._join, call)
        # The newest first: whenever this is cut off, the versions up to some number are there.
        for number, path in reversed(self._files()):
            if number > self.version:
                path.unlink()
        for number in self._numbers("snapshot"):
            if number not in self._named:
                self._named[number] = self._named_by(number)
        self._clean()

    def _named_by(self, number: int) -> frozenset[int] | None:
        """The extents that an older snapshot names, if it can be read."""
        try:
            return frozenset(self._read("snapshot", number)["spill.live"][:, 0].tolist())
        except StateDamagedError:
            return None

    def _clean(self) -> None:
        """Delete the extents that no version names; none, while it is not known what a damaged one names."""
        if None not in self._named.values():
            self._spill.clean(extent for extents in self._named.values() if extents for extent in extents)

    def _expect_operator(self, page_bytes: int) -> None:
        """Compare the operator with the one that the folder was made with, or note it.

        Raises:
            StateDamagedError: they differ.
        """
        made = {
            "behaviour": _BEHAVIOUR,
            "operator": type(self._join).__name__,
            "streams": self._join.streams,
            "predicate": repr(self._join.predicate),
            "memory in use by an empty one": self._join.memory_used(),
            "bytes of a page": page_bytes,
        }
        path = self._folder / "operator.json"
        try:
            noted = json.loads(path.read_text())
        except FileNotFoundError:
            write_durably(path, [json.dumps(made, indent=1).encode()])
            return
        except ValueError as error:
            raise StateDamagedError(f"{path} is refused: it is not what was written. {STATE_ADVICE}") from error
        for name, value in made.items():
            if noted.get(name) != value:
                raise StateDamagedError(
                    f"{self._folder} holds the state of another operator: {name} was {noted.get(name)}, now {value}. "
                    "Open it with what it was made with, or begin with an empty folder and give the join its tuples "
                    "again."
                )

    def _files(self) -> list[tuple[int, Path]]:
        """The number and file of each snapshot and record of calls, ascending."""
        return sorted((number, self._path(kind, number)) for kind in _KINDS for number in self._numbers(kind))

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
