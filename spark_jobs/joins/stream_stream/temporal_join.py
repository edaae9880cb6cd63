"""Temporal join: sweep areas over validity intervals, results in the order of validity (004 §5.2, §6).

    InputOrdered                                              OutputOrdered
    stream 0 -> waiting tuples --+                            stream 0 --+
                                 |- sweep areas -> results               |- sweep areas -> waiting results -> results
    stream 1 -> waiting tuples --+                            stream 1 --+

Where no order is asked for (AsFound), neither tuples nor results wait. A tuple asks the sweep areas of the other
streams, one after the other, with what its partners so far have in common. It stays in its own until all other streams
have passed its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.base import (
    NO_TUPLES,
    Int64Array,
    Results,
    StreamStreamJoin,
    Tuples,
    of_stream,
)
from spark_jobs.joins.stream_stream.disk_area import DiskArea
from spark_jobs.joins.stream_stream.emission import AsFound, Emission, OutputOrdered
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate, Values
from spark_jobs.joins.stream_stream.probe_order import FixedOrder, ProbeOrder
from spark_jobs.joins.stream_stream.result_buffer import ResultBuffer, in_order
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.temporal_budget import TUPLE_COLUMNS, budget
from spark_jobs.joins.stream_stream.tuple_queue import TupleQueue
from spark_jobs.joins.stream_stream.validity_order import FIRST, LAST, ValidityOrder
from spark_jobs.joins.structures import sweep_area
from spark_jobs.joins.structures.sweep_area import END as END_ROW
from spark_jobs.joins.structures.sweep_area import (
    FOUND_COLUMNS,
    FOUND_END,
    FOUND_ID,
    FOUND_LAST,
    FOUND_LOW,
    FOUND_START,
    ID,
    MATCHED_ROW,
    NUMBER,
    ROW,
    Dropped,
    SweepArea,
)
from spark_jobs.joins.structures.sweep_area import LAST as LAST_ROW
from spark_jobs.joins.structures.sweep_area import LOW as LOW_ROW
from spark_jobs.joins.structures.sweep_area import START as START_ROW


class _Member(NamedTuple):
    """The tuples of one stream in m combinations: where they stand, and what they are."""

    stream: int
    area: SweepArea
    ring: int
    numbers: Int64Array
    ids: Int64Array
    values: Values | None  # For a predicate of the user's, which is asked for every pair.

    def part(self, rows: Int64Array) -> _Member:
        values = self.values
        if values is not None:
            keys, highs = np.asarray(values.keys), values.highs
            values = Values(keys[rows], None if highs is None else np.asarray(highs)[rows])
        return self._replace(numbers=self.numbers.take(rows), ids=self.ids.take(rows), values=values)

    def mark(self) -> None:
        self.area.mark(self.ring, self.numbers)


class _Combinations(NamedTuple):
    """Tuples of some streams that match, each with each: what is asked of the next stream's area."""

    asked: Int64Array  # Shape (4, m): what the members have in common: low, last, start and end.
    members: tuple[_Member, ...]


class TemporalJoin(StreamStreamJoin):
    """Joins tuples that match by value and are valid at a common time.

    Equality, overlap and band are looked up in the areas' index; for a predicate of the user's every tuple held is
    looked at. What memory does not hold, oldest first, lies on disk until its time is over, and is read for each batch:
    right, but dear; `temporal_progressive_merge_join` is made for that.

    O(1) a tuple and area, and O(1) a result, final or intermediate.

    Departures from the paper: results with one start are held back until no other can have it, for only then are they
    in order of their ends; the paper lets them go one by one, and two that start together may leave in the wrong order.
    A tuple leaves when all other streams have passed its end, its own may be behind.

    Args:
        streams: how many.
        predicate: any.
        memory_bytes: the budget.
        spill: where tuples and results go that memory does not hold.
        emission: what waits, tuples or results.
        order: in which the areas are asked.
        materialise: whether to keep intermediate results, of streams 0 and 1, then 0 to 2, and so on, as a cascade of
            binary joins does (004 §6): faster, but more memory. When memory is short they are dropped. The
            order is by stream number then.

    Attributes:
        extent: how many tuples are written to disk at once.

    Raises:
        MemoryBudgetError: the budget is too small for one tuple at a time.
    """

    needs_validity = True

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        emission: Emission | None = None,
        order: ProbeOrder | None = None,
        materialise: bool = False,
    ) -> None:
        super().__init__(streams, predicate)
        self._memory = memory_bytes
        self._emission = OutputOrdered() if emission is None else emission
        self._order = FixedOrder() if order is None else order
        self._indexed = isinstance(predicate, Equality | Band | Overlap)
        plan = budget(
            memory_bytes,
            streams,
            emission=self._emission,
            indexed=self._indexed,
            materialise=materialise and streams > 2,
        )
        self._piece, self.extent = plan.piece, plan.extent
        self._area = SweepArea(plan.capacity, streams)
        self._found = [np.empty((FOUND_COLUMNS, plan.piece), np.int64) for _ in range(streams - 1)]
        self._disk = [DiskArea(spill) for _ in range(streams)]
        # Extents are read into these, one for each stream that a combination still lacks.
        self._loaded: list[SweepArea] = []
        self._validity = ValidityOrder(streams)
        self._bounds: Int64Array = np.full(streams, self._validity.common)
        self._queues = [TupleQueue(spill, TUPLE_COLUMNS, plan.chunk) for _ in range(streams)] if plan.chunk else []
        self._chunk, self._most_chunks = plan.chunk, plan.chunks
        self._behind = False
        self._results = ResultBuffer(spill, 2 + streams, plan.buffer_bytes) if self._emission.buffers_results else None
        self._ready: list[Int64Array] = []
        self._gone: list[Int64Array] = []
        self._may_materialise = plan.intermediate_capacity > 0
        self._intermediate_capacity = plan.intermediate_capacity
        # By number of streams of which the intermediate results are made; none when they are not kept.
        self._intermediate: dict[int, SweepArea] = {}
        if self._may_materialise:
            self._make_intermediate()

    @property
    def reached(self) -> Int64Array:
        """The least start that each stream can still bring, int64, shape (streams,): the least one holds up results."""
        return self._validity.starts.copy()

    @property
    def capacity(self) -> int:
        """How many tuples memory has room for, of all streams; a quarter is kept free for those that come."""
        return self._area.capacity

    @property
    def materialised(self) -> bool:
        """Whether intermediate results are kept now."""
        return bool(self._intermediate)

    @property
    def is_work(self) -> bool:
        """Whether tuples wait to be joined with those on disk, which are read for many at once."""
        return self._behind

    def drop_intermediate(self) -> None:
        """Forget all intermediate results: from now on they are computed anew when they are needed."""
        self._intermediate = {}

    def materialise(self) -> bool:
        """Compute the intermediate results from the areas, and keep them from now on.

        Returns:
            Whether they fit.

        Raises:
            ValueError: the operator was made without, or joins two streams.
        """
        if not self._may_materialise:
            raise ValueError("memory is set apart for intermediate results by materialise=True, with three streams")
        if not any(disk.tuples for disk in self._disk):
            self._make_intermediate()
            for first in range(0, self._area.span(0), self._piece):
                columns = self._area.oldest(0, self._piece, first)
                numbers = self._area.first_number(0) + first + np.arange(columns.shape[1])
                self._cascade(self._combinations(0, columns, numbers), 1, only_keep=True)
        return self.materialised

    def memory_used(self) -> int:
        """Bytes of areas, of what waits, of scratch space and directories."""
        areas = self._area.memory_used() + sum(area.memory_used() for area in self._loaded)
        areas += sum(area.memory_used() for area in self._intermediate.values())
        waiting = sum(queue.memory_used() for queue in self._queues)
        waiting += 0 if self._results is None else self._results.memory_used()
        scratch = sum(found.nbytes for found in self._found)
        return areas + waiting + scratch + sum(disk.memory_used() for disk in self._disk)

    def tuples_in_memory(self) -> int:
        """Tuples in areas, and those that wait."""
        return len(self._area) + sum(queue.tuples_in_memory for queue in self._queues)

    def tuples_on_disk(self) -> int:
        """Tuples of areas, and those that wait."""
        return sum(disk.tuples for disk in self._disk) + sum(queue.tuples_on_disk for queue in self._queues)

    def check(self) -> None:
        """Assert that areas are sound, hold nothing whose time is over, and keep the budget. O(memory)."""
        assert self.memory_used() <= self._memory
        self._area.check()
        for area in self._intermediate.values():
            area.check()
        for stream in range(self.streams):
            ends = self._area.oldest(stream, self._area.span(stream))[END_ROW]
            assert (ends[ends != FIRST] > self._bounds[stream]).all()

    def hold(self, stream: int, tuples: Tuples, matched: NDArray[np.bool_]) -> None:
        """Take tuples over from an earlier operator: they are joined with what comes, not with each other.

        For `AsFound`, before anything has arrived.

        Args:
            stream: whose they are.
            tuples: shape (n,), in any order.
            matched: bool, shape (n,): which were in a result, and so are never told as unmatched.

        Raises:
            JoinStateError: the columns are not as `arrive` needs them.
        """
        self._expect_life(stream)
        self._expect_columns(tuples)
        for first in range(0, len(tuples.ids), self._piece):
            rows = slice(first, first + self._piece)
            columns = self._columns(tuples.part(rows))
            columns[MATCHED_ROW] = matched[rows]
            self._make_room(stream, columns.shape[1])
            self._area.insert(stream, columns)

    def forget(self, stream: int, keys: Int64Array, ids: Int64Array) -> None:
        """Let tuples go that can be in no result any more, though their time is not over; they are not told.

        Those on disk stay there until it is. Intermediate results that have them as a part stay, too: nothing comes any
        more that would complete these.

        Args:
            stream: whose they are.
            keys: int64, shape (n,), in any order.
            ids: int64, shape (n,).

        Raises:
            ValueError: keys match otherwise than by `Equality`: then a key says nothing of what may still come.
        """
        self._expect_life(stream)
        if not isinstance(self.predicate, Equality):
            raise ValueError(f"tuples are forgotten by equal keys, and these match by {self.predicate!r}")
        order = np.lexsort((ids, keys))
        self.statistics.purged += self._area.forget(stream, keys[order], ids[order])
        if self._area.is_rebuild_due:
            self._rebuild()

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        refused, released = [], []
        for first in range(0, len(tuples.ids), self._piece):
            piece = tuples.part(slice(first, first + self._piece))
            if self._emission == AsFound():
                kept = self._validity.in_time(stream, piece)
            else:
                kept = self._validity.take(stream, piece)
            if kept is not None:
                refused.append(piece.ids[~kept])
                piece = piece.part(kept)
            if self._emission.buffers_inputs:
                self._wait(stream, self._columns(piece))
            else:
                self._take(stream, self._columns(piece))
                released.append(self._passed())
        if self._emission.buffers_inputs:
            released += self._catch_up()
        return self._results_of(released, refused)

    def _reach(self, stream: int, start: int) -> Results:
        self._validity.reach(stream, start)
        return self._results_of(self._catch_up() if self._emission.buffers_inputs else [self._passed()])

    def _step(self) -> Results:
        self._behind = False
        return self._results_of(list(self._run(self._validity.common)))

    def _finish(self) -> Iterator[Results]:
        self._behind = False
        for stream in range(self.streams):
            self._validity.reach(stream, LAST)
        for released in self._run(LAST) if self._emission.buffers_inputs else [self._passed()]:
            yield self._results_of([released])
        self._reorganise(np.full(self.streams, LAST))
        yield self._results_of([])

    def _columns(self, tuples: Tuples) -> Int64Array:
        """Tuples as areas take them: values as closed intervals that overlap where tuples match."""
        columns = np.empty((TUPLE_COLUMNS, len(tuples.ids)), np.int64)
        columns[LOW_ROW] = tuples.keys
        if tuples.highs is not None:
            columns[LAST_ROW] = tuples.highs - 1
        elif isinstance(self.predicate, Band):
            # |x - y| <= b where [x, x + b] and [y, y + b] overlap; all of several do where each two do.
            columns[LAST_ROW] = np.minimum(tuples.keys, LAST - self.predicate.width) + self.predicate.width
        else:
            columns[LAST_ROW] = tuples.keys
        assert tuples.starts is not None
        assert tuples.ends is not None
        columns[START_ROW], columns[END_ROW], columns[ID], columns[MATCHED_ROW] = (
            tuples.starts,
            tuples.ends,
            tuples.ids,
            0,
        )
        return columns

    def _wait(self, stream: int, columns: Int64Array) -> None:
        """Put tuples to those that wait, and the oldest of these to disk where there is no room."""
        for first in range(0, columns.shape[1], self._chunk):
            # Each queue reads from a chunk, and this one may need another to write to.
            while self.streams + sum(queue.chunks for queue in self._queues) + 1 > self._most_chunks:
                self.statistics.flushed += max(self._queues, key=lambda queue: queue.chunks).spill()
            self._queues[stream].push(columns[:, first : first + self._chunk])

    def _catch_up(self) -> list[Int64Array]:
        """Join the tuples that no other stream can precede; if that means to read the disk, only when many wait."""
        on_disk = any(disk.tuples for disk in self._disk)
        self._behind = on_disk and sum(len(queue) for queue in self._queues) < self._chunk
        if self._behind:
            return []
        return list(self._run(self._validity.common))

    def _run(self, bound: int) -> Iterator[Int64Array]:
        """Join the waiting tuples that start before, in order; results, in order too, in several parts."""
        while True:
            waiting = [queue for queue in self._queues if len(queue)]
            if not any(queue.front()[START_ROW, 0] < bound for queue in waiting):
                break
            # As far as is known without a look at what follows.
            known = [queue.front() for queue in waiting if queue.front().shape[1] < len(queue)]
            until = min([bound, *(int(front[START_ROW, -1]) + 1 for front in known)])
            for stream, queue in enumerate(self._queues):
                while len(queue) and (count := int(np.searchsorted(queue.front()[START_ROW], until))):
                    piece = queue.front()[:, : min(count, self._piece)]
                    self._take(stream, piece)
                    queue.take(piece.shape[1])
            self._reorganise(np.full(self.streams, until))
            yield in_order(_joined(self._ready, 2 + self.streams))
            self._ready = []
        self._reorganise(np.full(self.streams, bound))

    def _passed(self) -> Int64Array:
        """What is over leaves the areas; the results that wait for nothing any more."""
        starts = self._validity.starts
        least = np.partition(starts, 1)[:2]
        # The least of the others' starts: for the stream that is behind the second, for all others the first.
        self._reorganise(np.where(np.arange(self.streams) == np.argmin(starts), least[1], least[0]))
        if self._results is not None:
            return self._results.release(int(least[0]))
        found, self._ready = _joined(self._ready, 2 + self.streams), []
        return found

    def _reorganise(self, bounds: Int64Array) -> None:
        """Let go of all tuples that end at their stream's bound or before."""
        self._bounds = bounds
        for stream, bound in enumerate(bounds.tolist()):
            self._leave(stream, self._area.reorganise(stream, bound))
            for count, unmatched in self._disk[stream].reorganise(bound):
                self._leave(stream, Dropped(count, unmatched))
        for made_of, area in self._intermediate.items():
            bound = int(self._intermediate_bound(made_of))
            area.reorganise(0, bound)
            if area.is_rebuild_due:
                area.rebuild(np.array([bound]))
        if self._area.is_rebuild_due:
            self._rebuild()

    def _intermediate_bound(self, made_of: int) -> np.int64:
        """Intermediate results are asked for by tuples of the later streams, which start here at the earliest."""
        if self._emission.buffers_inputs:
            return self._bounds[0]
        bound: np.int64 = self._validity.starts[made_of:].min()
        return bound

    def _rebuild(self, wanted: Int64Array | None = None) -> None:
        for stream, dropped in enumerate(self._area.rebuild(self._bounds, wanted)):
            self._leave(stream, dropped)
        if self._intermediate:  # They know tuples by numbers that are new now.
            self.materialise()

    def _leave(self, stream: int, dropped: Dropped) -> None:
        self.statistics.purged += dropped.tuples
        if len(dropped.unmatched):
            self._gone.append(of_stream(stream, dropped.unmatched))

    def _make_room(self, stream: int, count: int) -> None:
        """See that a stream's area takes so many tuples more: drop what is over, share the room anew, write to disk."""
        area = self._area
        if area.room(stream) >= count:
            return
        enough = max(2 * count, area.capacity // 8)
        if area.free < enough:
            self.drop_intermediate()
        while area.free < max(enough, area.capacity // 4):
            fullest = max(range(self.streams), key=area.count)
            columns = area.take_oldest(fullest, self.extent)
            self._disk[fullest].write(columns)
            self.statistics.flushed += columns.shape[1]
        if area.room(stream) < count:
            wanted = np.zeros(self.streams, np.int64)
            wanted[stream] = count
            self._rebuild(wanted)

    def _take(self, stream: int, columns: Int64Array) -> None:
        """Put tuples into their area, and join them with what the others hold."""
        if not columns.shape[1]:
            return
        columns = np.ascontiguousarray(columns)
        self._make_room(stream, columns.shape[1])
        first = self._area.insert(stream, columns)
        coming = self._combinations(stream, columns, np.arange(first, first + columns.shape[1]))
        if not self._intermediate:
            probes_and_hits = np.zeros((2, self.streams), np.int64)
            self._ask(coming, self._order.order(stream, self.streams).tolist(), probes_and_hits)
            self._order.learn(stream, *probes_and_hits)
        elif stream < 2:
            for joined in self._partners(coming, self._area, 1 - stream, 1 - stream, final=False):
                self._cascade(joined, 2)
        else:
            for joined in self._partners_in_intermediate(coming, stream):
                self._cascade(joined, stream + 1)

    def _combinations(self, stream: int, columns: Int64Array, numbers: Int64Array) -> _Combinations:
        member = _Member(stream, self._area, stream, numbers, columns[ID], self._values(columns))
        return _Combinations(columns[:ID], (member,))

    def _values(self, columns: Int64Array) -> Values | None:
        if self._indexed:
            return None
        return Values(columns[LOW_ROW], columns[LAST_ROW] + 1 if self.predicate.interval else None)

    def _ask(self, coming: _Combinations, order: list[int], probes_and_hits: Int64Array) -> None:
        """Complete combinations with tuples of further streams, in memory and on disk; count by stream."""
        stream, final = order[0], len(order) == 1

        def go_on(area: SweepArea, ring: int) -> None:
            for joined in self._partners(coming, area, ring, stream, final=final):
                probes_and_hits[1, stream] += joined.asked.shape[1]
                if final:
                    self._emit(joined)
                else:
                    self._ask(joined, order[1:], probes_and_hits)

        self.statistics.probes += coming.asked.shape[1]
        probes_and_hits[0, stream] += coming.asked.shape[1]
        go_on(self._area, stream)
        disk = self._disk[stream]
        after = int(coming.asked[START_ROW].min())
        if disk.tuples and disk.largest_end > after:
            depth = len(coming.members) - 1

            def join_loaded(columns: Int64Array) -> Int64Array | None:
                area = self._loaded_area(depth)
                area.insert(0, columns)
                go_on(area, 0)
                matched = area.oldest(0, columns.shape[1])[MATCHED_ROW]
                if (matched == columns[MATCHED_ROW]).all():
                    return None
                columns[MATCHED_ROW] = matched
                self.statistics.flushed += columns.shape[1]
                return columns

            disk.each(after, join_loaded)

    def _loaded_area(self, depth: int) -> SweepArea:
        while len(self._loaded) <= depth:
            self._loaded.append(SweepArea(self.extent, 1))
        area = self._loaded[depth]
        area.clear()
        area.rebuild(np.zeros(1, np.int64), np.array([self.extent]))
        return area

    def _partners(
        self, coming: _Combinations, area: SweepArea, ring: int, stream: int, *, final: bool
    ) -> Iterator[_Combinations]:
        """Combinations with each partner in an area, as many at once as there is scratch space for."""
        found = self._found[len(coming.members) - 1]
        for count in self._matches(coming, area, ring, found, mark=final):
            rows = found[ROW, :count]
            values = None
            if not self._indexed:
                highs = found[FOUND_LAST, :count] + 1 if self.predicate.interval else None
                values = Values(found[FOUND_LOW, :count].copy(), highs)
            partner = _Member(stream, area, ring, found[NUMBER, :count], found[FOUND_ID, :count], values)
            members = (*(member.part(rows) for member in coming.members), partner)
            # Kernels take arrays of one layout; what is asked of nothing more need not have it.
            common = found[FOUND_LOW:, :count]
            yield _Combinations(common if final else np.ascontiguousarray(common), members)

    def _matches(
        self, coming: _Combinations, area: SweepArea, ring: int, found: Int64Array, *, mark: bool
    ) -> Iterator[int]:
        """Fill `found` again and again; how many each time."""
        if not self._indexed:
            yield from self._matches_by_pairs(coming, area, ring, found, mark=mark)
            return
        cursor = sweep_area.begin()
        while not sweep_area.ended(coming.asked, cursor):
            count = area.query(ring, coming.asked, cursor, found, mark=mark)
            if count:
                yield count

    def _matches_by_pairs(
        self, coming: _Combinations, area: SweepArea, ring: int, found: Int64Array, *, mark: bool
    ) -> Iterator[int]:
        """The same by a predicate that is asked for each pair. What it calls low and last are the partner's."""
        asked, held, most = coming.asked, area.span(ring), found.shape[1]
        for skipped in range(0, held, most):
            columns = area.oldest(ring, most, skipped)
            width = columns.shape[1]
            theirs = self._values(columns)
            assert theirs is not None
            for first in range(0, asked.shape[1], max(1, most // width)):
                rows = slice(first, first + max(1, most // width))
                starts = np.maximum(asked[START_ROW, rows, None], columns[START_ROW])
                ends = np.minimum(asked[END_ROW, rows, None], columns[END_ROW])
                match = starts < ends
                for member in coming.members:
                    assert member.values is not None
                    keys, highs = member.values
                    lows = np.asarray(keys)[rows, None]
                    mine = Values(lows, None if highs is None else np.asarray(highs)[rows, None])
                    match &= self.predicate.joins(mine, theirs)
                row, position = np.nonzero(match)
                count = len(row)
                if count:
                    found[ROW, :count] = first + row
                    found[NUMBER, :count] = area.first_number(ring) + skipped + position
                    found[FOUND_ID, :count] = columns[ID, position]
                    found[FOUND_LOW, :count] = columns[LOW_ROW, position]
                    found[FOUND_LAST, :count] = columns[LAST_ROW, position]
                    found[FOUND_START, :count] = starts[row, position]
                    found[FOUND_END, :count] = ends[row, position]
                    if mark:
                        area.mark(ring, found[NUMBER, :count])
                    yield count

    def _emit(self, joined: _Combinations) -> None:
        """Results whose last member has been marked."""
        for member in joined.members[:-1]:
            member.mark()
        results = np.empty((2 + self.streams, joined.asked.shape[1]), np.int64)
        results[:2] = joined.asked[START_ROW : END_ROW + 1]
        for member in joined.members:
            results[2 + member.stream] = member.ids
        if self._results is None:
            self._ready.append(results)
        else:
            self._results.add(results)

    def _make_intermediate(self) -> None:
        self.drop_intermediate()  # Their memory is what the new ones take.
        capacity = self._intermediate_capacity
        self._intermediate = {n: SweepArea(capacity, 1, extra=2 * n) for n in range(2, self.streams)}

    def _cascade(self, coming: _Combinations, made_of: int, *, only_keep: bool = False) -> None:
        """Complete combinations of the first streams with the others in turn, and keep them on the way."""
        if made_of == self.streams:
            coming.members[-1].mark()
            self._emit(coming)
            return
        if made_of >= 2:
            self._keep(coming, made_of)
            if only_keep and made_of == self.streams - 1:
                return
        self.statistics.probes += coming.asked.shape[1]
        for joined in self._partners(coming, self._area, made_of, made_of, final=False):
            self._cascade(joined, made_of + 1, only_keep=only_keep)

    def _keep(self, coming: _Combinations, made_of: int) -> None:
        area = self._intermediate.get(made_of)
        if area is None:
            return
        count = coming.asked.shape[1]
        if area.room(0) < count:
            bounds = np.array([self._intermediate_bound(made_of)])
            if area.free < count:
                area.rebuild(bounds)
            if area.free < count:
                self.drop_intermediate()
                return
            area.rebuild(bounds, np.array([count]))
        members = sorted(coming.members, key=lambda member: member.stream)
        columns = np.empty((TUPLE_COLUMNS + 2 * made_of, count), np.int64)
        columns[:ID], columns[ID], columns[MATCHED_ROW] = coming.asked, 0, 1
        columns[TUPLE_COLUMNS:] = [*(member.ids for member in members), *(member.numbers for member in members)]
        area.insert(0, columns)

    def _partners_in_intermediate(self, coming: _Combinations, made_of: int) -> Iterator[_Combinations]:
        """Combinations of a later stream's tuples with the intermediate results of all streams before."""
        self.statistics.probes += coming.asked.shape[1]
        area = self._intermediate[made_of]
        for joined in self._partners(coming, area, 0, -1, final=False):
            *members, found = joined.members
            extra = area.extra(0, found.numbers)
            kept = [
                _Member(stream, self._area, stream, extra[made_of + stream], extra[stream], None)
                for stream in range(made_of)
            ]
            yield _Combinations(joined.asked, (*kept, *members))

    def _results_of(self, released: list[Int64Array], refused: list[Int64Array] | None = None) -> Results:
        everything = _joined(released, 2 + self.streams)
        unmatched, self._gone = _joined(self._gone, 2), []
        late = np.concatenate(refused) if refused else NO_TUPLES
        return Results(everything[2:], everything[0], everything[1], unmatched, late)


def _joined(parts: list[Int64Array], rows: int) -> Int64Array:
    """Matrices of so many rows side by side."""
    if len(parts) == 1:
        return parts[0]
    return np.hstack(parts) if parts else np.empty((rows, 0), np.int64)
