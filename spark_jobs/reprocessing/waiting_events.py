"""Looks at the events of several streams that wait to be joined: how many there are, since when, and which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import FreshetError
from spark_jobs.join_state.bucket import BucketPlan, StoredBucket
from spark_jobs.join_state.stored_bucket import bucket_folders
from spark_jobs.joins.stream_stream.windows import Window
from spark_jobs.ledger.batch_streams import former_batch
from spark_jobs.loading.accumulation.waiting_parts import WAITS
from spark_jobs.loading.payload import tuple_objects
from spark_jobs.settings import Home
from spark_jobs.shown_text import shown_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The server's zone may not reach what is far, and Python has no year after 9999.
_MICROSECONDS = """
    (1000000 * extract(epoch FROM least(greatest(event_time, '0001-01-01 UTC'), '9999-12-31 23:59:59 UTC')))::bigint
"""
_WAITING_PARTS = f"""
    pipeline = %(pipeline)s AND {WAITS}
    AND starts_with(event_id, %(stream)s || '/') AND strpos(payload, %(text)s) > 0
"""


@dataclass(frozen=True)
class WaitingEvent:
    """An event that is in no fact yet.

    Attributes:
        event_time: when it happened.
        until: to when it is valid, and can find a partner; None: for ever.
        record: its columns as a JSON object; with `emit: accumulate` the record as it arrived.
    """

    event_time: datetime
    until: datetime | None
    record: str

    @property
    def in_words(self) -> str:
        """Two lines for people: from when to when it waits; its record."""
        until = f" until {self.until:%Y-%m-%d %H:%M:%S}" if self.until else ""
        return f"{self.event_time:%Y-%m-%d %H:%M:%S}{until} UTC\n    {shown_text(str(self.record))}"


@dataclass(frozen=True)
class WaitingStream:
    """What waits of a stream.

    Attributes:
        stream: its name.
        events: how many.
        oldest, newest: the first and the last of their event times; None where nothing waits.
        samples: some of them, the oldest first.
    """

    stream: str
    events: int
    oldest: datetime | None
    newest: datetime | None
    samples: tuple[WaitingEvent, ...]

    @property
    def in_words(self) -> str:
        """A line for people: how many wait, and since when."""
        times = f"  {self.oldest:%Y-%m-%d %H:%M:%S} to {self.newest:%Y-%m-%d %H:%M:%S} UTC" if self.oldest else ""
        return f"{self.events:>12,}  {self.stream}{times}"


def waiting_events(
    connection: extensions.connection,
    definition: PipelineDefinition,
    home: Home,
    *,
    stream: str | None = None,
    text: str = "",
    samples: int = 0,
) -> list[WaitingStream]:
    """What waits to be joined after the last committed batch, stream by stream.

    The state is read beside the driver that writes it, which goes on. O(events in the state).

    Args:
        connection: to the warehouse; this is one transaction on it.
        definition: the pipeline.
        home: the installation, which holds the state.
        stream: only this one; None: all.
        text: only events whose record contains this.
        samples: how many events of each stream to show.

    Raises:
        FreshetError: the pipeline has one stream, or none of that name.
        StateDamagedError: the state is not there, or a file of it is damaged.
        PipelineDefinitionError: the state was made for other streams.
    """
    if definition.streams is None:
        raise FreshetError(
            f"Pipeline {definition.name} has one stream: its events wait for no others. `freshet held "
            f"{definition.name}` shows those that are held, `freshet status` what is still to be read."
        )
    if stream is not None and stream not in definition.streams:
        raise FreshetError(
            f"{stream}: pipeline {definition.name} has no such stream. It has {', '.join(definition.streams)}."
        )
    wanted = [name for name in definition.streams if stream in (None, name)]
    with connection, connection.cursor() as cursor:
        if definition.accumulates:
            return [_waiting_parts(cursor, definition.name, name, text, samples) for name in wanted]
        version = former_batch(cursor, definition.name).batch_no
        buckets = _opened(definition, home.join_state(definition.name), version) if version else []
    return [_waiting(definition, buckets, name, text, samples) for name in wanted]


def _opened(definition: PipelineDefinition, folder: Path, version: int) -> list[StoredBucket]:
    buckets = bucket_folders(folder)
    plan = BucketPlan.of(definition, len(buckets))
    return [StoredBucket(plan, bucket, version) for bucket in buckets]


def _waiting(
    definition: PipelineDefinition, buckets: Sequence[StoredBucket], stream: str, text: str, samples: int
) -> WaitingStream:
    """What waits of a stream in the state."""
    assert definition.streams is not None
    source, number = definition.streams[stream], list(definition.streams).index(stream)
    window = BucketPlan.of(definition, 1).window
    columns = tuple(source.columns)
    events, span = 0, list[int]()
    shown: list[tuple[int, str]] = []
    for piece in _pieces(buckets, number):
        tuples = piece.filter(pc.match_substring(tuple_objects(piece, columns), text)) if text else piece
        if not tuples.num_rows:
            continue
        events += tuples.num_rows
        times = tuples[source.event_time].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        found = [each.as_py() for each in pc.min_max(times).values()]
        span = [min(span + found), max(span + found)]
        if samples:
            chosen = pc.select_k_unstable(pa.table({"time": times}), samples, sort_keys=[("time", "ascending")])
            records = tuple_objects(tuples.take(chosen), columns)
            shown += zip(times.take(chosen).to_pylist(), records.to_pylist(), strict=True)
            shown = sorted(shown)[:samples]
    return _found(stream, events, span, [(time, _end(time, window), record) for time, record in shown])


def _pieces(buckets: Sequence[StoredBucket], stream: int) -> Iterator[pa.Table]:
    for bucket in buckets:
        yield from bucket.waiting(stream)


def _end(time: int, window: Window | None) -> int | None:
    return None if window is None else int(window.ends(np.array([time]))[0])


def _waiting_parts(cursor: extensions.cursor, pipeline: str, stream: str, text: str, samples: int) -> WaitingStream:
    """The parts of a stream that wait for the rows of accumulating facts: held, until these are made."""
    chosen = {"pipeline": pipeline, "stream": stream, "text": text, "most": samples}
    cursor.execute(
        f"SELECT count(*), min({_MICROSECONDS}), max({_MICROSECONDS}) FROM freshet.held_tuple WHERE {_WAITING_PARTS}",
        chosen,
    )
    [(count, *span)] = cursor.fetchall()
    cursor.execute(
        f"SELECT {_MICROSECONDS}, NULL, payload FROM freshet.held_tuple WHERE {_WAITING_PARTS} "
        "ORDER BY event_time, event_id LIMIT %(most)s",
        chosen,
    )
    return _found(stream, count, span if count else [], cursor.fetchall())


def _found(
    stream: str, events: int, span: Sequence[int], samples: Sequence[tuple[int, int | None, str]]
) -> WaitingStream:
    """What waits, from times in microseconds since 1970."""
    oldest, newest = map(_moment, span) if span else (None, None)
    shown = [WaitingEvent(_moment(at), None if end is None else _moment(end), record) for at, end, record in samples]
    return WaitingStream(stream, events, oldest, newest, tuple(shown))


def _moment(microseconds: int) -> datetime:
    """A moment; the first or the last that there is for those beyond, which an event may have."""
    first, last = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
    unit = timedelta(microseconds=1)
    return _EPOCH + unit * min(max(microseconds, (first - _EPOCH) // unit), (last - _EPOCH) // unit)
