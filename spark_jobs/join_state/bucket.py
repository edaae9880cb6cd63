"""A hash bucket of several streams: tuples that wait for partners, in memory and in files, version by version.

    take    tuples -> duplicates | late | operator -> joined
                                        \\-> segment -> expired, when all other streams have passed its end
    checkpoint(batch)     segments and the version's record, in the bucket's folder

The operator (spark_jobs.joins.stream_stream) knows codes of keys, intervals and ids; the tuples themselves lie in
segments, which are files from the next checkpoint on, and are mapped. A version is the state after a batch. Nothing of
the operator is stored: it is filled anew from the segments, so that a restore costs what lives, not what happened; and,
with punctuations, what is remembered of what has left: for as long as the punctuations hold, for ever without a window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.value_codes import Codes, bucket_of, codes_of, ordered_codes_of
from spark_jobs.definition.fates import (
    AFTER_LAST,
    DUPLICATE,
    EXPIRED,
    EXPIRED_EARLY,
    JOINED,
    LATE,
    PUNCTUATION,
    PURGED,
    TOO_MANY,
    WAITING,
    Fate,
)
from spark_jobs.errors import JoinStateError
from spark_jobs.join_state.bucket_plan import RESULTS, BucketPlan, BucketStream, JoinedPiece, Settled
from spark_jobs.join_state.joined_tuples import have_same_keys, match, side_by_side
from spark_jobs.join_state.punctuated_keys import NEVER, PunctuatedKeys, trace
from spark_jobs.join_state.segment import Segment
from spark_jobs.join_state.sorted_join import sorted_join
from spark_jobs.join_state.spill_files import SpillFiles
from spark_jobs.join_state.state_folder import (
    FolderLock,
    SegmentRecord,
    VersionRecord,
    expect_made_for,
    note_made_for,
    read_version,
    remove_leftovers,
    remove_segments,
    remove_versions,
    write_version,
)
from spark_jobs.join_state.stored_bucket import StoredBucket, bound, made_for, streams_of
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.emission import AsFound
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin

__all__ = [
    "Bucket",
    "BucketPlan",
    "BucketStream",
    "JoinedPiece",
    "Settled",
    "StoredBucket",
    "bucket_of",
]

Int64Array = NDArray[np.int64]

FOR_EVER = 2**63 - 1
FROM_THE_BEGINNING = -(2**63)
_NOTHING = pa.table({})
# Tuples joined at once: at first few, because it is not known how many results each has; and results fetched at once.
_TAKEN_FIRST, _TAKEN_AT_ONCE, _JOINED_AT_ONCE = 1 << 12, 1 << 16, 1 << 15
# Of the memory; the rest is for the directories of segments.
_OPERATOR_SHARE = 7 / 8
# Of the operator's room for tuples.
_AREA_SHARE = 5 / 8


class Bucket:
    """The state of one bucket, in a folder of its own; one process at a time.

    After a take that was not consumed to its end, or not checkpointed though the version before is wanted again, close
    it and open the folder anew.

    Args:
        plan: what is joined. It has to be that of the folder, but for algorithm and memory.
        folder: the state's own; made if it is not there.
        version: to go on from: one that was checkpointed, or 0 for an empty state. Later ones are removed.
        patience_seconds: how long to wait for another process that holds the folder.

    Attributes:
        version: that was restored, or checkpointed since.
        in_memory: whether the operator holds all tuples; if not, they are joined by their segments' sorted keys.

    Raises:
        StateDamagedError: the version is not there, or a file of it is damaged.
        PipelineDefinitionError: the state was made for other streams.
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
            expect_made_for(self._folder, made_for(self._plan))
        remove_versions(self._folder, after=version)
        self._files = remove_leftovers(self._folder)
        if not record:
            note_made_for(self._folder, made_for(self._plan))
        count = len(self._plan.streams)
        self._kept = streams_of(self._plan, self._folder, record)
        self._streams, self._traces = self._kept[:count], self._kept[count : 2 * count]
        self._punctuated = [
            PunctuatedKeys(stream, tuples) if stream.punctuation else None
            for stream, tuples in zip(self._plan.streams, self._kept[2 * count :], strict=self._plan.is_punctuated)
        ]
        self._keys_taken: list[Int64Array] = []  # By the present take; of plans with punctuations.
        self._reached = record.reached if record else [FROM_THE_BEGINNING] * len(self._streams)
        self._next_segment = record.next_segment if record else 1
        self._spill = SpillFiles(self._folder / "extents")
        self._spill.clear()
        self._operator = self._made_operator()
        # More would be written to the operator's disk, which it reads for whatever comes.
        self._most_in_memory = int(self._operator.capacity * _AREA_SHARE)
        self.in_memory = len(self) <= self._most_in_memory
        if self.in_memory:
            self._fill_operator()
        self.version = version
        self._amid = False

    def take(
        self, arrived: Sequence[pa.Table | None], late_before: Sequence[int], reached: Sequence[int]
    ) -> Iterator[JoinedPiece]:
        """Take tuples, join them, then advance: what no stream can match any more leaves.

        Args:
            arrived: by stream, in any order; None where there are none. Keys, event ids and times are not null. With
                punctuations in the order of arrival.
            late_before: by stream, microseconds since 1970: tuples that start before are late.
            reached: by stream: afterwards it brings no tuple that starts before. Never less than before.

        Yields:
            At least one piece. The state has changed when all were taken.

        Raises:
            JoinStateError: a take before was not consumed, or a checkpoint failed; or a key, event id or time is null.
        """
        self._expect_whole()
        self._amid = True
        return self._taken(arrived, late_before, reached)

    def _taken(
        self, arrived: Sequence[pa.Table | None], late_before: Sequence[int], reached: Sequence[int]
    ) -> Iterator[JoinedPiece]:
        self._keys_taken = []
        for stream, tuples in enumerate(arrived):
            if tuples is not None and tuples.num_rows:
                yield from self._take_stream(stream, tuples, max(late_before[stream], self._reached[stream]))
        if self._keys_taken:
            yield from self._purge(np.unique(np.concatenate(self._keys_taken)))
        yield from self._advanced([max(pair) for pair in zip(self._reached, reached, strict=True)])
        self._amid = False

    def checkpoint(self, version: int) -> None:
        """Make the state a version; it is on the disk when this returns.

        O(bytes that came since the last one), amortised, and a bit for each tuple in a segment of which not all are in
        a result, and another where any were purged.

        Args:
            version: above the present one.

        Raises:
            JoinStateError: a take was not consumed, or the version is not above the present one.
            OSError: the disk is full or fails; earlier versions are as they were: open the folder again at one of them.
        """
        self._expect_whole()
        if version <= self.version:
            raise JoinStateError(f"version {version} is not above {self.version}, the present one")
        self._amid = True
        contents: dict[int, pa.Buffer] = {}
        for stream in self._kept:
            stream.compact()
            for segment in stream.segments:
                if not segment.number:
                    segment.number = self._next_segment
                    contents[segment.number] = segment.content()
                    self._next_segment += 1
        segments = [
            [SegmentRecord(segment.number, segment.joined, segment.purged) for segment in stream.segments]
            for stream in self._kept
        ]
        next_ids = [stream.next_id for stream in self._kept]
        record = VersionRecord(self._reached, next_ids, segments, self._next_segment)
        write_version(self._folder, version, record, contents)
        for stream in self._kept:
            stream.segments = [
                segment.mapped(self._folder) if segment.number in contents else segment for segment in stream.segments
            ]
        self._files[version] = record.files
        self._spill.clear()
        self.version = version
        self._amid = False

    def forget(self, before: int) -> None:
        """Remove the versions before one: they are not needed any more. O(files)."""
        before = min(before, self.version)
        remove_versions(self._folder, before=before)
        self._files = {version: files for version, files in self._files.items() if version >= before}
        remove_segments(self._folder, {number for files in self._files.values() for number in files})

    def waiting(self, stream: int) -> Iterator[pa.Table]:
        """The tuples of a stream that are in no result yet, as they came, in pieces."""
        return self._streams[stream].not_joined()

    def serves(self, plan: BucketPlan, version: int) -> bool:
        """Whether it does what a plan says, has this version, and its folder is still the one that was opened."""
        return plan == self._plan and version == self.version and self._lock.is_in_place()

    def close(self) -> None:
        """Let other processes open the folder; what was not checkpointed is lost."""
        self._lock.release()

    def _expect_whole(self) -> None:
        if self._amid:
            raise JoinStateError(
                f"a take was not consumed to its end, or a checkpoint failed: open {self._folder} again, at a version"
            )

    def _made_operator(self) -> TemporalJoin:
        plan = self._plan
        name = "temporal_join" if plan.algorithm == "auto" else plan.algorithm
        memory = int(plan.memory_bytes * _OPERATOR_SHARE)
        operator = create(name, len(plan.streams), plan.found_by, memory, self._spill, emission=AsFound())
        assert isinstance(operator, TemporalJoin)
        return operator

    def _choose_place(self, coming: int = 0) -> None:
        """Give up the operator when memory does not hold all tuples; fill one when there is ample room again."""
        count = coming + len(self)
        if self.in_memory and count > self._most_in_memory:
            self.in_memory = False
            self._operator = self._made_operator()
        elif not self.in_memory and count <= self._most_in_memory // 2:
            self.in_memory = True
            self._fill_operator()

    def __len__(self) -> int:
        """How many tuples the state holds, of all streams; not what is remembered of those that have left."""
        return sum(len(stream) for stream in self._streams)

    def _fill_operator(self) -> None:
        for number, stream in enumerate(self._streams):
            for segment in stream.segments:
                rows = segment.living_rows()
                held = Tuples(segment.ids, segment.keys(), segment.highs, segment.starts, segment.ends)
                self._operator.hold(number, held.part(rows), segment.joined[rows])
        for number, start in enumerate(self._reached):
            self._operator.reach(number, start)

    def _take_stream(self, stream: int, tuples: pa.Table, late_before: int) -> Iterator[JoinedPiece]:
        plan, held = self._plan.streams[stream], self._streams[stream]
        starts = _microseconds(tuples, plan.event_time)
        events = codes_of(tuples, plan.event_id)
        order = np.argsort(events.codes, kind="stable")
        repeated = _repeated(tuples, events, order, plan.event_id)
        # Its own stream may bring an event once more that all others have passed.
        repeated |= held.known(tuples, events.codes, order, min(self._reached), exact=events.exact)
        for traces in self._traces[stream : stream + 1]:
            repeated |= traces.known(tuples, events.codes, order, self._reached[stream], exact=events.exact)
        punctuated = self._punctuated[stream] if self._punctuated else None
        if punctuated is not None:
            repeated |= punctuated.known(tuples, events.codes, order, self._reached[stream])
        keys = codes_of(tuples, plan.key) if plan.key else ordered_codes_of(tuples, plan.matched)
        late = (starts < late_before) & ~repeated
        kept = ~(late | repeated)
        too_many = np.zeros(len(kept), np.bool_)
        if (results := self._expected(stream, keys.codes)) is not None:
            too_many = kept & (results > (self._plan.most_results or 0))
        if punctuated is not None:
            after_last = punctuated.after_last(tuples, keys, kept & ~too_many, self._reached[stream]) & ~repeated
            late, too_many, kept = late & ~after_last, too_many & ~after_last, kept & ~after_last
        else:
            after_last = np.zeros(len(kept), np.bool_)
        kept &= ~too_many
        barred = {LATE: late, AFTER_LAST: after_last, TOO_MANY: too_many}
        settled = {fate: tuples.filter(pa.array(where)) for fate, where in barred.items() if where.any()}
        if results is not None and TOO_MANY in settled:
            settled[TOO_MANY] = settled[TOO_MANY].append_column(RESULTS, pa.array(results[too_many]))
        yield self._piece(stream, {DUPLICATE: int(repeated.sum())}, settled)
        if not kept.any():
            return
        taken, codes = tuples, events.codes
        if not kept.all():
            taken, starts, codes = tuples.filter(pa.array(kept)), starts[kept], codes[kept]
            keys = Codes(keys.codes[kept], keys.exact, None if keys.highs is None else keys.highs[kept])
        ids = np.arange(held.next_id, held.next_id + len(starts))
        window = self._plan.window
        ends = np.full(len(starts), FOR_EVER) if window is None else window.ends(starts)
        if self._punctuated:
            yield from self._tell(stream, taken, keys.codes, codes, ends)
        self._choose_place(len(ids))
        held.add(Segment.of((ids, keys.codes, starts, ends, codes), taken, np.zeros(len(ids), np.bool_), keys.highs))
        given = Tuples(ids, keys.codes, keys.highs, starts, ends)
        first, most = 0, _TAKEN_FIRST
        while first < len(ids):
            results = self._results(stream, given.part(slice(first, first + most)))
            first += most
            for at in range(0, results.shape[1], _JOINED_AT_ONCE):
                yield self._joined(results[:, at : at + _JOINED_AT_ONCE], exact=keys.exact)
            # As many that their results would come to what is fetched at once.
            most = max(1, min(_TAKEN_AT_ONCE, 2 * most * _JOINED_AT_ONCE // max(1, results.shape[1])))

    def _tell(
        self, stream: int, taken: pa.Table, keys: Int64Array, events: Int64Array, ends: Int64Array
    ) -> Iterator[JoinedPiece]:
        """Take the punctuations that tuples of a stream are: of its own keys, and of those of others."""
        self._keys_taken.append(keys)
        window, key = self._plan.window, self._plan.streams[stream].key
        until = ends if window is None else window.ends(ends)
        for number, punctuated in enumerate(self._punctuated):
            count = 0
            if punctuated is not None and number == stream:
                count = punctuated.tell(taken, keys, events, until)
            elif punctuated is not None and punctuated.is_told_by(stream):
                count = punctuated.tell_counts(taken, key, keys, until)
            if count:
                yield self._piece(number, {PUNCTUATION: count})

    def _purge(self, keys: Int64Array) -> Iterator[JoinedPiece]:
        """Let the tuples of some keys go that all other streams have punctuated: they make no more results (001 §3.4).

        The temporal join stays the operator, and forgets what it is told: PJoin joins two streams only, knows no
        validity, and can't keep a punctuation for as long as that asks for.

        Args:
            keys: codes of those that have arrived, ascending: for no others anything was told. O(tuples of these keys),
                and as of `PunctuatedKeys.of`.
        """
        ends = [
            np.full(len(keys), NEVER) if punctuated is None else punctuated.at_most(keys, self._reached[stream])
            for stream, punctuated in enumerate(self._punctuated)
        ]
        for stream, held in enumerate(self._streams):
            until = np.min([each for other, each in enumerate(ends) if other != stream], axis=0)
            ended = np.flatnonzero(until != NEVER)
            for segment in held.segments if len(ended) else ():
                asked, rows = segment.same_keys(keys[ended])
                rows = rows[(segment.ends[rows] <= until[ended[asked]]) & segment.are_there(rows)]
                if len(rows):
                    yield from self._purge_rows(stream, segment, rows)

    def _purge_rows(self, stream: int, segment: Segment, rows: Int64Array) -> Iterator[JoinedPiece]:
        """Purge those rows of a segment whose keys have ended."""
        plan, held, traces = self._plan.streams[stream], self._streams[stream], self._traces[stream]
        tuples = segment.tuples.take(rows)
        keys = codes_of(tuples, plan.key)
        for other, punctuated in enumerate(self._punctuated):
            if other != stream and punctuated is not None:
                until = punctuated.of(tuples, plan.key, keys, self._reached[other]).until
                ended = segment.ends[rows] <= until
                rows, tuples, keys = rows[ended], tuples.filter(pa.array(ended)), keys._replace(codes=keys.codes[ended])
        if not len(rows):
            return
        if self.in_memory:
            self._operator.forget(stream, keys.codes, segment.ids[rows])
        alone = ~segment.joined[rows]
        events = codes_of(tuples, plan.event_id).codes
        starts, ends = segment.starts[rows], segment.ends[rows]
        # So that they are known when they come again, which is as long as they would not be late.
        traces.add(trace(traces.next_id, keys.codes, starts, ends, events, tuples.select(list(plan.event_id))))
        held.purge(segment, rows)
        settled = {EXPIRED_EARLY: tuples.filter(pa.array(alone))} if alone.any() else {}
        yield self._piece(stream, {PURGED: len(rows)}, settled)

    def _expected(self, stream: int, keys: Int64Array) -> Int64Array | None:
        """About how many results tuples with these keys would make, shape (n,), or more; None where nobody asks.

        All tuples of the other streams count that have the key, whatever their times. O(n log(1 + segment / n)).
        """
        if self._plan.most_results is None:
            return None
        distinct, which = np.unique(keys, return_inverse=True)
        results = np.ones(len(distinct))
        for other, held in enumerate(self._streams):
            if other != stream:
                results *= sum((segment.count_keys(distinct) for segment in held.segments), np.zeros(len(distinct)))
        return np.minimum(results, 2.0**62).astype(np.int64)[which]

    def _results(self, stream: int, tuples: Tuples) -> Int64Array:
        """The ids that results are made of; int64, shape (streams, m)."""
        if not self.in_memory:
            return sorted_join(self._streams, stream, tuples, self._plan.found_by)
        results = self._operator.arrive(stream, tuples)
        assert not results.refused.size
        return results.ids

    def _joined(self, ids: Int64Array, *, exact: bool) -> JoinedPiece:
        """Results with their tuples; those are dropped whose keys only have one code, or don't match."""
        parts = [stream.fetch(of) for stream, of in zip(self._streams, ids, strict=True)]
        plan, kept = self._plan, np.ones(ids.shape[1], np.bool_)
        if not exact:
            kept &= have_same_keys(plan.streams, parts)
        if plan.found_by != plan.predicate:
            kept &= match(plan, parts)
        if not kept.all():
            parts = [part.filter(pa.array(kept)) for part in parts]
            ids = ids[:, kept]
        counts = []
        for stream, of in zip(self._streams, ids, strict=True):
            joined = stream.join(of)
            counts.append(Counter({JOINED: joined, WAITING: stream.waiting}))
        return JoinedPiece(side_by_side(self._plan.streams, parts), (), tuple(counts))

    def _advanced(self, reached: list[int]) -> Iterator[JoinedPiece]:
        self._reached = reached
        for stream, start in enumerate(reached):
            self._operator.reach(stream, start)
        for stream, held in enumerate(self._streams):
            for expired in held.leave(bound(reached, stream), min(reached)):
                yield self._piece(stream, {}, {EXPIRED: expired} if expired.num_rows else {})
        for stream, punctuated in enumerate(self._punctuated):
            for _ in self._traces[stream].leave(reached[stream], reached[stream]):
                raise AssertionError("a purged tuple has expired")
            if punctuated is not None:
                punctuated.forget(reached[stream])
        yield self._piece(0, {})
        self._choose_place()

    def _piece(
        self, stream: int, counts: Mapping[Fate, int], settled: Mapping[Fate, pa.Table] | None = None
    ) -> JoinedPiece:
        """What befell one stream: tuples by fate, and counts of others."""
        everyone = [Counter({WAITING: each.waiting}) for each in self._streams]
        everyone[stream].update(counts)
        parts = tuple(Settled(stream, fate, tuples) for fate, tuples in (settled or {}).items())
        everyone[stream].update({part.fate: part.tuples.num_rows for part in parts})
        return JoinedPiece(_NOTHING, parts, tuple(everyone))


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
