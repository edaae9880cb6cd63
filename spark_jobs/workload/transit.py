"""Events on their way from where they happened to where they land: out of order, and some of them late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from spark_jobs.errors import WorkloadError
from spark_jobs.workload.draws import draws
from spark_jobs.workload.landing import land_parquet

MAX_EVENTS_PER_FILE = 500_000
_LANDS = "_lands"

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Disorder:
    """How far out of order events land.

    Attributes:
        spread: each lands up to this much after it happened, all delays being as likely.
        late_share: share of events that are late.
        late_by: so much later those land.

    Raises:
        WorkloadError: a value is out of range.
    """

    spread: timedelta = timedelta()
    late_share: float = 0.0
    late_by: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if not 0 <= self.late_share <= 1:
            raise WorkloadError(f"Late share {self.late_share:g} is not allowed: give a share from 0 to 1.")
        if min(self.spread, self.late_by) < timedelta():
            raise WorkloadError("A disorder of less than nothing is not allowed: give 0s or above.")

    def delays(self, seed: int, purpose: int, first: int, count: int) -> IntArray:
        """Microseconds from happening to landing, shape (count,); arguments as for `draws`."""
        delay, lateness = draws(seed, purpose, first, count, 2)
        spread, late_by = (each / timedelta(microseconds=1) for each in (self.spread, self.late_by))
        return (delay * spread + (lateness < self.late_share) * late_by).astype(np.int64)


class Transit:
    """The events of one stream that have not landed yet.

    Args:
        event_time: column of their event time, timestamps in microseconds.
        kept_in: file of those that a former run has left; taken over, and removed. None: a run leaves none.
    """

    def __init__(self, event_time: str, kept_in: Path | None = None) -> None:
        self._event_time = event_time
        self._kept_in = kept_in
        self._under_way: list[pa.Table] = []
        if kept_in is not None and kept_in.exists():
            self._under_way.append(pyarrow.parquet.read_table(kept_in))
            kept_in.unlink()  # a run that is killed loses events, but lets none land twice

    def send(self, events: pa.Table, delays: IntArray) -> None:
        """Let events land so many microseconds after they happened."""
        lands = events[self._event_time].cast(pa.int64()).to_numpy() + delays
        self._under_way.append(events.append_column(_LANDS, pa.array(lands)))

    def landed(self, now: float) -> Iterator[pa.Table]:
        """Take out what lands by `now` (seconds since 1970 UTC), in the order of landing, in tables for a file each."""
        return self._take_out(_LANDS, now)

    def settle(self, now: float) -> Iterator[pa.Table]:
        """At the end of a run: take out what has happened by `now`, as `landed` does; the rest is kept for the next."""
        yield from self._take_out(self._event_time, now)
        if self._kept_in is not None and self._under_way:
            land_parquet(self._kept_in.parent, self._kept_in.name, pa.concat_tables(self._under_way))

    def _take_out(self, column: str, now: float) -> Iterator[pa.Table]:
        if not self._under_way:
            return
        under_way = pa.concat_tables(self._under_way)
        is_due = under_way[column].cast(pa.int64()).to_numpy() <= now * 1e6
        waiting = under_way.filter(pa.array(~is_due))
        self._under_way = [waiting] if waiting.num_rows else []
        due = under_way.filter(pa.array(is_due)).sort_by(_LANDS).drop_columns([_LANDS])
        for start in range(0, due.num_rows, MAX_EVENTS_PER_FILE):
            yield due.slice(start, MAX_EVENTS_PER_FILE)
