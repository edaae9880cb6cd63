"""The watermarks of joined streams: from which event time on each can still bring tuples that are in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_jobs.ledger.batch_streams import StreamProgress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FROM_THE_BEGINNING = -(2**63)


@dataclass(frozen=True)
class WatermarkRules:
    """What a pipeline says of the times of its streams.

    Attributes:
        allowed_lateness: how far out of order a stream's events may come.
        idle_timeout: a stream that has been silent for so long, while others bring events, follows them; None: it never
            does.
    """

    allowed_lateness: timedelta
    idle_timeout: timedelta | None

    def next(
        self, former: Sequence[StreamProgress], now: datetime, since: datetime, has_waiting: Callable[[str], bool]
    ) -> tuple[StreamProgress, ...]:
        """How far each stream has come by now. O(streams).

        A stream's watermark is the largest event time that it has brought, less the allowed lateness; it never goes
        back. One that is idle takes the furthest watermark of the others.

        Args:
            former: as it was noted with the last batch.
            now: by the clock.
            since: from when on we have listened: silence before does not count.
            has_waiting: whether a stream has landed events that have not been read before.
        """
        active = [self._active(stream) for stream in former]
        idle = {stream.stream for stream in former if self._is_idle(stream, former, now, since, has_waiting)}
        furthest = max((each.watermark for each in active if each.watermark and each.stream not in idle), default=None)
        return tuple(
            each._replace(idle=True, watermark=_later(each.watermark, furthest)) if each.stream in idle else each
            for each in active
        )

    def newest(self, former: datetime | None, microseconds: int | None, now: datetime) -> datetime | None:
        """The largest event time so far: a time in the future counts as what the clock and the lateness allow.

        Args:
            former: before the batch.
            microseconds: the largest of the batch, since 1970; None: it had none.
            now: by the clock.
        """
        return former if microseconds is None else _later(former, _moment(microseconds, now + self.allowed_lateness))

    @staticmethod
    def furthest(former: datetime | None, microseconds: int | None) -> datetime | None:
        """The largest event time so far as the events say it, in the future or not; arguments as of `newest`."""
        return former if microseconds is None else _later(former, _moment(microseconds, _LAST))

    def _active(self, stream: StreamProgress) -> StreamProgress:
        watermark = None
        if stream.newest is not None and stream.newest - datetime.min.replace(tzinfo=UTC) > self.allowed_lateness:
            watermark = stream.newest - self.allowed_lateness
        return stream._replace(watermark=_later(stream.watermark, watermark), idle=False)

    def _is_idle(
        self,
        stream: StreamProgress,
        all_: Sequence[StreamProgress],
        now: datetime,
        since: datetime,
        has_waiting: Callable[[str], bool],
    ) -> bool:
        if self.idle_timeout is None:
            return False
        silent_since = max(stream.last_arrival or since, since)
        others = [other.last_arrival for other in all_ if other.stream != stream.stream and other.last_arrival]
        brought = any(arrival > silent_since for arrival in others)
        return brought and now - silent_since > self.idle_timeout and not has_waiting(stream.stream)


def watermark_microseconds(stream: StreamProgress) -> int:
    """A stream's watermark in microseconds since 1970; the least int64 where it has none."""
    return _FROM_THE_BEGINNING if stream.watermark is None else (stream.watermark - _EPOCH) // _MICROSECOND


def _moment(microseconds: int, latest: datetime) -> datetime | None:
    """The moment, but not beyond `latest`; None before the first one that there is."""
    if microseconds >= (latest - _EPOCH) // _MICROSECOND:
        return latest
    if microseconds < (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND:
        return None
    return _EPOCH + timedelta(microseconds=microseconds)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
