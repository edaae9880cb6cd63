"""What the tasks of one batch need to know; pickled into them by the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.definition.fates import Fate
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.ledger.source_ranges import RecordMark
from spark_jobs.loading.loader import Destination
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.secret_text import SecretText


@dataclass(frozen=True)
class BatchContext:
    """One batch.

    Attributes:
        warehouse_url: where to load.
        destination: where tasks bring what they have settled.
        parts: partitions of each exchange.
        lookups: the lookups, in the pipeline's order.
        fronts: the front stage of each lookup.
        back_stage_seconds: time a task may spend on a back stage before it sheds; None: until all is joined.
    """

    warehouse_url: SecretText
    destination: Destination
    parts: int
    lookups: tuple[LookupPlan, ...]
    fronts: tuple[FrontStagePlan, ...]
    back_stage_seconds: float | None

    @property
    def all_is_hot(self) -> bool:
        """Whether all of each relation is hot, so that next to no tuple misses."""
        return all(front.whole is not None for front in self.fronts)

    @property
    def event(self) -> EventColumns:
        """The pipeline's event columns."""
        return self.destination.event


class PieceEnd(NamedTuple):
    """What became of one piece of a task's input.

    Attributes:
        piece: the piece.
        records: records that were read of it, decoded or not.
        unreadable: why it can't be read; None if it was.
        mark: of a partition, the last record that was read of it.
    """

    piece: Hashable
    records: int
    unreadable: str | None
    mark: RecordMark | None = None


class Collected(NamedTuple):
    """What was found in one piece of one of several streams.

    Attributes:
        stream: its number.
        records: that were read, decoded or not.
        rejected: records that can't be joined, by fate.
        newest: the largest event time of the others, microseconds since 1970; None where there are none.
    """

    stream: int
    records: int
    rejected: Counter[Fate]
    newest: int | None


@dataclass(kw_only=True)
class TaskReport:
    """What a task tells the driver besides what it stored.

    Attributes:
        stage: of several streams "collect" and "join", then "front", or "back" of a lookup; "parts": of accumulating
            facts, those beside the rows.
        lookup: number of the lookup; -1 for the other stages' tasks, which serve all.
        seconds: seconds by activity: "join", "load", "total".
        counts: counts by name, summed over tasks by the driver.
        pieces: what the task has read.
        collected: what was found in pieces of several streams.
        streams: by bucket, what became of each stream's tuples.
        hits: for each lookup, hits of each slot of its hot set, int64 (slots,), where counted.
        offers: tuples of R that proved frequent, with their keys and frequencies.
        algorithm: the back stage that was run.
        reason: why `auto` chose it.
        partition: number of the task in its stage.
        unsettled: packed IdSketch of the event ids that the task has read, less those that it has loaded: summed over
            the tasks of a batch there are none.
    """

    stage: Literal["collect", "join", "front", "back", "parts"]
    lookup: int = -1
    seconds: dict[str, float]
    counts: dict[str, int]
    pieces: list[PieceEnd] = field(default_factory=list)
    collected: dict[Hashable, Collected] = field(default_factory=dict)
    streams: dict[int, tuple[Counter[Fate], ...]] = field(default_factory=dict)
    hits: dict[int, np.ndarray] = field(default_factory=dict)
    offers: tuple[RelationRows, np.ndarray] | None = None
    algorithm: str | None = None
    reason: str | None = None
    partition: int = 0
    unsettled: bytes | None = None


def concatenated(tables: list[pa.Table]) -> pa.Table:
    """Tables of one schema as one table with one chunk a column."""
    return pa.concat_tables(tables).combine_chunks() if len(tables) != 1 else tables[0]
