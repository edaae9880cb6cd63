"""A hash bucket of correlated streams: tuples that wait for partners, in memory and in files, version by version.

    take    tuples -> duplicates | late | operator -> joined
                                        \\-> segment -> expired, when all other streams have passed its end
    checkpoint(batch)     segments and the version's record, in the bucket's folder

The operator (spark_jobs.joins.stream_stream) knows codes of keys, intervals and ids; the tuples themselves lie in
segments, which are files from the next checkpoint on, and are mapped. A version is the state after a batch. Nothing of
the operator is stored: it is filled anew from the segments, so that a restore costs what lives, not what happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition.correlation import COMPLETED_AT, qualified
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.errors import JoinStateError
from spark_jobs.join_state.key_codes import Codes, bucket_of, codes_of
from spark_jobs.join_state.segment import Segment, read_segment
from spark_jobs.join_state.spill_files import SpillFiles
from spark_jobs.join_state.state_folder import (
    FolderLock,
    VersionRecord,
    expect_made_for,
    note_made_for,
    read_version,
    remove_leftovers,
    remove_segments,
    remove_versions,
    write_version,
)
from spark_jobs.join_state.stream_tuples import StreamTuples
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.emission import AsFound
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin
from spark_jobs.joins.stream_stream.windows import Window

__all__ = ["Bucket", "BucketPlan", "Correlated", "CorrelatedStream", "StreamCounts", "bucket_of"]

Int64Array = NDArray[np.int64]

FOR_EVER = 2**63 - 1
FROM_THE_BEGINNING = -(2**63)
_NOT_OF_THE_SOURCE = (ARRIVED_AT, RECORD, RANGE, POSITION)
_NOTHING = pa.table({})
# Tuples given to the operator at once, and results fetched at once. Where there are many results a tuple, fewer.
_TAKEN_AT_ONCE, _JOINED_AT_ONCE = 1 << 16, 1 << 15
# Of the memory; the rest is for the directories of segments.
_OPERATOR_SHARE = 7 / 8


@dataclass(frozen=True)
class CorrelatedStream:
    """A stream as its bucket sees it.

    Attributes:
        name: what its columns are called by in joined tuples.
        key: the columns that must equal the other streams'.
        event_id: the columns that tell its events apart.
        event_time: the column with the start of its tuples' validity.
    """

    name: str
    key: tuple[str, ...]
    event_id: tuple[str, ...]
    event_time: str


@dataclass(frozen=True)
class BucketPlan:
    """What a bucket does.

    Attributes:
        streams: at least two.
        window: makes ends of starts, in microseconds; None: tuples are valid for ever.
        algorithm: of the catalogue of spark_jobs.joins.stream_stream, or "auto".
        memory_bytes: for the operator and the directories of this bucket. Pages of mapped files are not counted.
    """

    streams: tuple[CorrelatedStream, ...]
    window: Window | None
    algorithm: str
    memory_bytes: int


class StreamCounts(NamedTuple):
    """What became of a stream's tuples: arrived = duplicates + late + those that the state took.

    Attributes:
        arrived: that were given.
        duplicates: whose event id is that of a tuple in the state, or of an earlier one of the same take.
        late: that start before what was told.
        joined: that are in a result for the first time.
        expired: that have left and never were in a result.
        waiting: in the state now, and in no result yet.
    """

    arrived: int = 0
    duplicates: int = 0
    late: int = 0
    joined: int = 0
    expired: int = 0
    waiting: int = 0


class Correlated(NamedTuple):
    """A piece of what a take gives.

    Attributes:
        joined: joined tuples: columns `stream.column` of all streams, `_completed_at`, and `_arrived_at` of the latest
            part. No columns where there are no tuples; so in the other tables.
        late: by stream, as they came.
        expired: by stream, as they came; what they say of their place in a batch is of the batch in which they came.
        counts: by stream. Their sums over a take's pieces are the take's; of `waiting` the last counts.
    """

    joined: pa.Table
    late: tuple[pa.Table, ...]
    expired: tuple[pa.Table, ...]
    counts: tuple[StreamCounts, ...]


class Bucket:
    """The state of one bucket, in a folder of its own; one process at a time.

    After a take that was not consumed to its end, or not checkpointed though the version before is wanted again, close
    it and open the folder anew (`dirty` tells).

    Args:
        plan: what is joined. It has to be that of the folder, but for algorithm and memory.
        folder: the state's own; made if it is not there.
        version: to go on from: one that was checkpointed, or 0 for an empty state. Later ones are removed.
        patience_seconds: how long to wait for another process that holds the folder.

    Attributes:
        version: that was restored, or checkpointed since.
        dirty: whether anything was taken since.

    Raises:
        StateDamagedError: the version is not there, a file of it is damaged, or the state was made for other streams.
        StateInUseError: another process holds the folder.
        MemoryBudgetError: the operator needs more.
    """

    def __init__(self, plan: BucketPlan, folder: Path, version: int, *, patience_seconds: float = 10) -> None:
        self._plan = plan
        self._folder = folder
        self._lock = FolderLock(folder, patience_seconds)
        try:
            self._open(version)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, version: int) -> None:
        record = read_version(self._folder, version) if version else None  # Before anything is removed.
        if record:
            expect_made_for(self._folder, _made_for(self._plan))
        remove_versions(self._folder, after=version)
        self._files = remove_leftovers(self._folder)
        if not record:
            note_made_for(self._folder, _made_for(self._plan))
        self._streams = _streams_of(self._plan, self._folder, record)
        self._reached = record.reached if record else [FROM_THE_BEGINNING] * len(self._streams)
        self._next_segment = record.next_segment if record else 1
        self._spill = SpillFiles(self._folder / "extents")
        self._spill.clean(())
        self._operator = self._filled_operator()
        self.version = version
        self.dirty = False
        self._taking = False

    def take(
        self, arrived: Sequence[pa.Table | None], late_before: Sequence[int], reached: Sequence[int]
    ) -> Iterator[Correlated]:
        """Take tuples, join them, then advance: what no stream can match any more leaves.

        Args:
            arrived: by stream, in any order; None where there are none. Keys, event ids and times are not null.
            late_before: by stream, microseconds since 1970: tuples that start before are late.
            reached: by stream: afterwards it brings no tuple that starts before. Never less than before.

        Yields:
            At least one piece. The state has changed when all were taken.

        Raises:
            JoinStateError: a take before was not consumed; or a key, event id or event time is null.
        """
        if self._taking:
            raise JoinStateError(f"a take was not consumed to its end: open {self._folder} again, at its last version")
        self._taking = self.dirty = True
        return self._taken(arrived, late_before, reached)

    def _taken(
        self, arrived: Sequence[pa.Table | None], late_before: Sequence[int], reached: Sequence[int]
    ) -> Iterator[Correlated]:
        for stream, tuples in enumerate(arrived):
            if tuples is not None and tuples.num_rows:
                yield from self._take_stream(stream, tuples, max(late_before[stream], self._reached[stream]))
        yield from self._advanced([max(pair) for pair in zip(self._reached, reached, strict=True)])
        self._taking = False

    def checkpoint(self, version: int) -> None:
        """Make the state a version; it is on the disk when this returns.

        O(bytes that came since the last one), amortised, and a bit for each tuple in the state.

        Args:
            version: above the present one.

        Raises:
            JoinStateError: a take was not consumed, or the version is not above the present one.
            OSError: the disk is full or fails; earlier versions are as they were: open the folder again at one of them.
        """
        if self._taking:
            raise JoinStateError(f"a take was not consumed to its end: open {self._folder} again, at its last version")
        if version <= self.version:
            raise JoinStateError(f"version {version} is not above {self.version}, the present one")
        contents: dict[int, pa.Buffer] = {}
        for stream in self._streams:
            stream.compact()
            for segment in stream.segments:
                if not segment.number:
                    segment.number = self._next_segment
                    contents[segment.number] = segment.content()
                    self._next_segment += 1
        segments = [[(segment.number, segment.joined) for segment in stream.segments] for stream in self._streams]
        next_ids = [stream.next_id for stream in self._streams]
        record = VersionRecord(self._reached, next_ids, segments, self._next_segment)
        write_version(self._folder, version, record, contents)
        for stream in self._streams:
            stream.segments = [
                segment.mapped(self._folder) if segment.number in contents else segment for segment in stream.segments
            ]
        self._files[version] = record.files
        self._spill.clean(())
        self.version = version
        self.dirty = False

    def forget(self, before: int) -> None:
        """Remove the versions before one: they are not needed any more. O(files)."""
        before = min(before, self.version)
        remove_versions(self._folder, before=before)
        self._files = {version: files for version, files in self._files.items() if version >= before}
        remove_segments(self._folder, {number for files in self._files.values() for number in files})

    def waiting(self, stream: int) -> Iterator[pa.Table]:
        """The tuples of a stream that are in no result yet, as they came, in pieces."""
        return self._streams[stream].not_joined()

    def close(self) -> None:
        """Let other processes open the folder; what was not checkpointed is lost."""
        self._lock.release()

    def _filled_operator(self) -> TemporalJoin:
        plan = self._plan
        name = "temporal_join" if plan.algorithm == "auto" else plan.algorithm
        memory = int(plan.memory_bytes * _OPERATOR_SHARE)
        operator = create(name, len(plan.streams), Equality(), memory, self._spill, emission=AsFound())
        assert isinstance(operator, TemporalJoin)
        for number, stream in enumerate(self._streams):
            for segment in stream.segments:
                rows = segment.living_rows()
                columns = (segment.ids, segment.keys, segment.starts, segment.ends)
                ids, keys, starts, ends = (column[rows] for column in columns)
                operator.hold(number, Tuples(ids, keys, None, starts, ends), segment.joined[rows])
        for number, start in enumerate(self._reached):
            operator.reach(number, start)
        return operator

    def _take_stream(self, stream: int, tuples: pa.Table, late_before: int) -> Iterator[Correlated]:
        plan, held = self._plan.streams[stream], self._streams[stream]
        starts = _microseconds(tuples, plan.event_time)
        events = codes_of(tuples, plan.event_id)
        order = np.argsort(events.codes, kind="stable")
        repeated = _repeated(tuples, events, order, plan.event_id)
        repeated |= held.known(tuples, events.codes, order, _bound(self._reached, stream), exact=events.exact)
        late = (starts < late_before) & ~repeated
        kept = ~(late | repeated)
        counts = StreamCounts(len(starts), int(repeated.sum()), int(late.sum()))
        yield self._piece(stream, counts, late=tuples.filter(pa.array(late)) if counts.late else _NOTHING)
        if not kept.any():
            return
        whole = kept.all()
        taken = tuples if whole else tuples.filter(pa.array(kept))
        starts, codes = starts[kept], events.codes[kept]
        keys = codes_of(taken, plan.key)
        ids = np.arange(held.next_id, held.next_id + len(starts))
        window = self._plan.window
        ends = np.full(len(starts), FOR_EVER) if window is None else window.ends(starts)
        held.add(Segment.of((ids, keys.codes, starts, ends, codes), taken, np.zeros(len(ids), np.bool_)))
        given = Tuples(ids, keys.codes, None, starts, ends)
        first, most = 0, _TAKEN_AT_ONCE
        while first < len(ids):
            results = self._operator.arrive(stream, given.part(slice(first, first + most)))
            assert not results.refused.size
            first += most
            for at in range(0, results.count, _JOINED_AT_ONCE):
                yield self._joined(results.ids[:, at : at + _JOINED_AT_ONCE], exact=keys.exact)
            # As many that their results would come to what is fetched at once.
            most = max(1, min(_TAKEN_AT_ONCE, 2 * most * _JOINED_AT_ONCE // max(1, results.count)))

    def _joined(self, ids: Int64Array, *, exact: bool) -> Correlated:
        """Results of the operator with their tuples; those whose keys only have one code are dropped."""
        parts = [stream.fetch(of) for stream, of in zip(self._streams, ids, strict=True)]
        if not exact:
            same = self._same_keys(parts)
            if not same.all():
                parts = [part.filter(pa.array(same)) for part in parts]
                ids = ids[:, same]
        counts = []
        for stream, of in zip(self._streams, ids, strict=True):
            joined = stream.join(of)
            counts.append(StreamCounts(joined=joined, waiting=stream.waiting))
        nothing = tuple(_NOTHING for _ in self._streams)
        return Correlated(_side_by_side(self._plan.streams, parts), nothing, nothing, tuple(counts))

    def _same_keys(self, parts: Sequence[pa.Table]) -> NDArray[np.bool_]:
        first, first_key = parts[0], self._plan.streams[0].key
        same = np.ones(first.num_rows, np.bool_)
        for part, stream in zip(parts[1:], self._plan.streams[1:], strict=True):
            for mine, theirs in zip(first_key, stream.key, strict=True):
                same &= pc.equal(first[mine], part[theirs]).to_numpy(zero_copy_only=False)
        return same

    def _advanced(self, reached: list[int]) -> Iterator[Correlated]:
        self._reached = reached
        for stream, start in enumerate(reached):
            self._operator.reach(stream, start)
        for stream, held in enumerate(self._streams):
            for expired in held.leave(_bound(reached, stream)):
                yield self._piece(stream, StreamCounts(expired=expired.num_rows), expired=expired)
        yield self._piece(0, StreamCounts())

    def _piece(
        self, stream: int, counts: StreamCounts, *, late: pa.Table = _NOTHING, expired: pa.Table = _NOTHING
    ) -> Correlated:
        """What befell one stream."""
        streams = range(len(self._streams))
        everyone = [
            (counts if number == stream else StreamCounts())._replace(waiting=self._streams[number].waiting)
            for number in streams
        ]
        lates = tuple(late if number == stream else _NOTHING for number in streams)
        expireds = tuple(expired if number == stream else _NOTHING for number in streams)
        return Correlated(_NOTHING, lates, expireds, tuple(everyone))


class StoredBucket:
    """A version of a bucket's state to be read beside the process that writes: it takes no lock and removes nothing.

    Args:
        plan: of the folder.
        folder: the state's own.
        version: that was checkpointed, and not forgotten before this returns; 0 for the empty state.

    Raises:
        StateDamagedError: the version is not there, a file of it is damaged, or the state was made for other streams.
    """

    def __init__(self, plan: BucketPlan, folder: Path, version: int) -> None:
        record = read_version(folder, version) if version else None
        if record:
            expect_made_for(folder, _made_for(plan))
        # All files are mapped now: they may be deleted later.
        self._streams = _streams_of(plan, folder, record)

    def waiting(self, stream: int) -> Iterator[pa.Table]:
        """The tuples of a stream that are in no result yet, as they came, in pieces."""
        return self._streams[stream].not_joined()


def _streams_of(plan: BucketPlan, folder: Path, record: VersionRecord | None) -> list[StreamTuples]:
    """The streams' tuples of a version, or none."""
    if record is None:
        return [StreamTuples(stream.event_id) for stream in plan.streams]
    streams = []
    for number, (stream, files) in enumerate(zip(plan.streams, record.segments, strict=True)):
        segments = [read_segment(folder, file, joined) for file, joined in files]
        for segment in segments:
            segment.leave(_bound(record.reached, number))
        streams.append(StreamTuples(stream.event_id, segments, record.next_ids[number]))
    return streams


def _made_for(plan: BucketPlan) -> dict[str, object]:
    streams = [(stream.name, stream.key, stream.event_id, stream.event_time) for stream in plan.streams]
    return {"streams": streams, "window": repr(plan.window)}


def _bound(reached: Sequence[int], stream: int) -> int:
    """Tuples of a stream that end here or before meet none that is still to come."""
    return min(start for other, start in enumerate(reached) if other != stream)


def _microseconds(tuples: pa.Table, column: str) -> Int64Array:
    times = tuples[column]
    if times.null_count:
        raise JoinStateError(f"{times.null_count} values of {column} are null: tuples without a time can't be joined")
    values: Int64Array = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy()
    return values


def _repeated(tuples: pa.Table, events: Codes, order: Int64Array, event_id: Sequence[str]) -> NDArray[np.bool_]:
    """Which tuples have the event id of one before them; bool, shape (n,). O(n), in the order of the codes."""
    ordered = events.codes[order]
    same = ordered[1:] == ordered[:-1]
    repeated = np.zeros(len(order), np.bool_)
    if not same.any():
        return repeated
    if events.exact:
        repeated[order[1:][same]] = True
        return repeated
    seen: set[tuple[object, ...]] = set()
    suspects = np.sort(order[np.concatenate((same, [False])) | np.concatenate(([False], same))])
    rows = tuples.select(list(event_id)).take(suspects).to_pylist()
    for at, row in zip(suspects.tolist(), rows, strict=True):
        identity = tuple(row.values())
        repeated[at] = identity in seen
        seen.add(identity)
    return repeated


def _side_by_side(streams: Sequence[CorrelatedStream], parts: Sequence[pa.Table]) -> pa.Table:
    """Joined tuples of their parts."""
    columns = {
        qualified(stream.name, name): part[name]
        for stream, part in zip(streams, parts, strict=True)
        for name in part.column_names
        if name not in _NOT_OF_THE_SOURCE
    }
    columns[COMPLETED_AT] = _latest([part[stream.event_time] for stream, part in zip(streams, parts, strict=True)])
    columns[ARRIVED_AT] = _latest([part[ARRIVED_AT] for part in parts])
    return pa.table(columns)


def _latest(times: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """The greatest of several times, row by row."""
    # Arrow compares whole numbers, but no times with a zone.
    return pc.max_element_wise(*(column.cast(pa.int64()) for column in times)).cast(times[0].type)
