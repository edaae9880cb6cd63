"""Makes the lost state of a join of several streams anew, from the landed events: `freshet rebuild-state`.

The ledger names each batch's ranges, and how far the streams had come in it: that is all that a bucket's state follows
from. So the batches are taken again, in their order, and what they settle is thrown away: it has been loaded. Batches
whose events have left the state, and so have all that these could meet, are passed over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.correlation import FixedWindow
from spark_jobs.definition.fates import AFTER_LAST, TOO_MANY
from spark_jobs.driver.checks import check_tables
from spark_jobs.driver.join_folder import JoinFolder
from spark_jobs.driver.stream_courses import microseconds_reached
from spark_jobs.errors import FreshetError, StateDamagedError
from spark_jobs.join_state.bucket import Bucket, BucketPlan, StoredBucket, bucket_of
from spark_jobs.ledger.batch_streams import FormerBatch, StreamCourse, batches_since, former_batch, opened_streams
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.reprocessing.landed_events import LandedEvents, held_ids
from spark_jobs.settings import Home
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.stream_plan import StreamPlan

_CHECKPOINT_BYTES = 64 << 20
# Of what is held no longer, the reason is not known; what was too late can go as well.
_REJECTED = """
    SELECT event_id, batch_no FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND fate = ANY (%(fates)s)
    UNION ALL
    SELECT event_id, batch_no FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s AND place = %(place)s
"""

Say = Callable[[str], None]


@dataclass(frozen=True)
class RebuiltState:
    """What was made anew.

    Attributes:
        version: of the state: the last committed batch.
        buckets: that were lost, of `of` in all.
        batches: that were taken again.
        records: of them.
        waiting: events in the state that are in no result yet, as the ledger has it.
    """

    version: int
    buckets: int
    of: int
    batches: int
    records: int
    waiting: int


def rebuild_state(
    connection: extensions.connection, definition: PipelineDefinition, home: Home, parts: int, say: Say
) -> RebuiltState | None:
    """Make those buckets of a pipeline's state anew that are missing or damaged; all, where their number is not known.

    O(records of the batches since). What is damaged is kept beside, as `<bucket>.damaged`. The stream must be drained
    first.

    Args:
        connection: to the warehouse.
        definition: the pipeline.
        home: the installation.
        parts: buckets, where not even their number is known any more.
        say: takes a line of progress.

    Returns:
        what was made; None if nothing was missing.

    Raises:
        FreshetError: it has no such state, its stream runs, a landed file or a record of a topic that it takes is gone,
            or what was made does not agree with the ledger. The message says what to do; all is as it was.
    """
    name = definition.name
    if definition.streams is None or definition.accumulates:
        raise FreshetError(f"Pipeline {name} has no state: only pipelines of several streams with `emit: complete` do.")
    driver = newest_driver(connection, name)
    if driver is not None and driver.is_alive():
        raise FreshetError(f"A driver of pipeline {name} runs. Drain the stream first; start it again afterwards.")
    with connection, connection.cursor() as cursor:
        last = former_batch(cursor, name)
    folder = JoinFolder(home, definition, parts)
    if not last.batch_no:
        return None
    noted = folder.restore(connection, last.batch_no)
    buckets = folder.buckets
    plan = BucketPlan.of(definition, buckets)
    places = [folder.path / str(number) for number in range(buckets)]
    lost = [number for number, place in enumerate(places) if not (noted and _is_whole(plan, place, last.batch_no))]
    if not lost:
        return None
    rebuilt = _Rebuilding(connection, definition, home, folder.path, plan, last, lost, buckets, say).run()
    if not noted:
        folder.note(connection)
    return rebuilt


def _is_whole(plan: BucketPlan, folder: Path, version: int) -> bool:
    with suppress(StateDamagedError):
        StoredBucket(plan, folder, version)
        return True
    return False


class _Rebuilding:
    def __init__(
        self,
        connection: extensions.connection,
        definition: PipelineDefinition,
        home: Home,
        folder: Path,
        plan: BucketPlan,
        last: FormerBatch,
        lost: Sequence[int],
        buckets: int,
        say: Say,
    ) -> None:
        assert definition.streams is not None
        self._connection = connection
        self._definition = definition
        self._sources = definition.streams
        self._folder = folder
        # What would have made too many was found when it came: the answer depends on what had not been tidied away.
        self._most_results = plan.most_results
        self._plan = replace(plan, most_results=None)
        self._last = last
        self._lost = lost
        self._buckets = buckets
        self._say = say
        fact = check_tables(connection, definition).fact
        readers = SliceReader.of_streams(definition)
        self._streams = [StreamPlan.of(definition, name, fact, reader) for name, reader in readers.items()]
        self._landed = LandedEvents(home, self._streams)

    def run(self) -> RebuiltState:
        last = self._last
        with self._connection, self._connection.cursor() as cursor:
            batches = batches_since(cursor, self._definition.name, self._needed_since())
            rejected = self._rejected(cursor)
        made = {number: self._folder / f"{number}.rebuilding" for number in self._lost}
        try:
            with ExitStack() as opened:
                states = {}
                for number, path in made.items():
                    shutil.rmtree(path, ignore_errors=True)
                    states[number] = Bucket(self._plan, path, 0)
                    opened.callback(states[number].close)
                self._replay(batches, states, rejected)
            self._check(made)
        except BaseException:
            for path in made.values():
                shutil.rmtree(path, ignore_errors=True)
            raise
        there = {int(each.name): each for each in self._folder.glob("*") if each.name.isdigit()}
        for number, place in there.items():
            if number in made or number >= self._buckets:
                damaged = place.with_name(f"{number}.damaged")
                shutil.rmtree(damaged, ignore_errors=True)
                place.rename(damaged)
        for number, path in made.items():
            path.rename(self._folder / str(number))
        return RebuiltState(
            last.batch_no, len(self._lost), self._buckets, len(batches), self._landed.records, last.waiting
        )

    def _needed_since(self) -> datetime | None:
        """Batches whose events happened before have none in the state, nor any that was joined with one of these."""
        within = self._definition.correlate.within if self._definition.correlate else None
        reached = [course.reached for course in self._last.courses]
        if within is None or None in reached:
            return None
        longest: timedelta = within.fixed if isinstance(within, FixedWindow) else within
        return min(each for each in reached if each is not None) - 2 * longest

    def _rejected(self, cursor: extensions.cursor) -> pa.Table | None:
        """Ids and batches of what would have made too many, or came after the last; None where nothing ever does."""
        if self._most_results is None and not self._plan.is_punctuated:
            return None
        # The punctuation that one came after may be of a batch that is passed over.
        fates = {"fates": [TOO_MANY.name, AFTER_LAST.name], "place": TOO_MANY.place}
        cursor.execute(_REJECTED, {"pipeline": self._definition.name, **fates})
        rows = cursor.fetchall()
        return pa.table(
            {
                "event_id": pa.array([event_id for event_id, _ in rows], pa.string()),
                "batch_no": pa.array([batch_no for _, batch_no in rows], pa.int64()),
            }
        )

    def _replay(self, batches: Sequence[int], states: dict[int, Bucket], rejected: pa.Table | None) -> None:
        held = 0
        for done, batch_no in enumerate(batches, 1):
            with self._connection, self._connection.cursor() as cursor:
                by_name = {course.stream: course for course in opened_streams(cursor, batch_no)}
            reached = [microseconds_reached(by_name.get(name, StreamCourse(name))) for name in self._sources]
            arrived: dict[int, list[list[pa.Table]]] = {number: [[] for _ in self._streams] for number in states}
            # An event that is too late today may have been joined when it landed first.
            barred = None
            if rejected is not None:
                barred = rejected["event_id"].filter(pc.less_equal(rejected["batch_no"], batch_no)).combine_chunks()
            for planned in self._landed.ranges(self._connection, batch_no):
                held += planned.bytes
                for stream, number, tuples in self._read(planned, barred):
                    if number in arrived:
                        arrived[number][stream].append(tuples)
            for number, state in states.items():
                tables = [pa.concat_tables(part) if part else None for part in arrived[number]]
                for _ in state.take(tables, reached, reached):
                    pass
                if held > _CHECKPOINT_BYTES or done == len(batches):
                    state.checkpoint(batch_no)
                    state.forget(batch_no)
            if held > _CHECKPOINT_BYTES:
                held = 0
                self._say(f"{done:,} of {len(batches):,} batches, {self._landed.records:,} records")
        if not batches:
            for state in states.values():
                state.checkpoint(self._last.batch_no)

    def _read(self, planned: SourceRange, rejected: pa.Array | None) -> Iterator[tuple[int, int, pa.Table]]:
        """The sound tuples of a range that were not rejected, with their stream and bucket."""
        try:
            for stream, landed in self._landed.read(planned):
                tuples = landed
                if rejected is not None and len(rejected):
                    is_rejected = pc.is_in(held_ids(self._streams[stream], landed), rejected)
                    tuples = landed.filter(pc.invert(is_rejected))
                owners = bucket_of(tuples, self._streams[stream].key, self._buckets)
                for owner in np.unique(owners).tolist():
                    yield stream, owner, tuples.filter(pa.array(owners == owner))
        except FreshetError as error:
            raise FreshetError(
                f"The state can't be made anew, for events may wait in it that landed there. {error}. Bring "
                f"it back as it was, or the folder {self._folder} from a backup; or load the streams under another "
                "pipeline name, with a fact table of its own."
            ) from error

    def _check(self, made: dict[int, Path]) -> None:
        """The ledger counted what waits, apart from the state."""
        waiting = dict.fromkeys(self._sources, 0)
        for number in range(self._buckets):
            stored = StoredBucket(self._plan, made.get(number, self._folder / str(number)), self._last.batch_no)
            for position, stream in enumerate(waiting):
                waiting[stream] += sum(tuples.num_rows for tuples in stored.waiting(position))
        for stream, found in waiting.items():
            noted = self._last.waiting_of.get(stream, 0)
            if found != noted:
                raise FreshetError(
                    f"The state made anew does not agree with the ledger: {found:,} events of {stream} wait in it, and "
                    f"{noted:,} should. Its batches, or landed events, are not all there any more. Bring the folder "
                    f"{self._folder} back from a backup, or load the streams under another pipeline name."
                )
