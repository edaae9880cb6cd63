"""What a task hands to the loader: joined tuples, which are facts, and tuples to hold, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from spark_jobs.definition.fates import Fate
from spark_jobs.definition.joined_tuple import qualified
from spark_jobs.definition.stream_tuple import EventColumns

if TYPE_CHECKING:
    from spark_jobs.loading.accumulation.arrived_parts import PartsBeside
    from spark_jobs.warehouse.fact_table import FactColumn, FactTable


@dataclass(frozen=True)
class HeldStream:
    """One of several streams, as its tuples are held.

    Attributes:
        name: the stream's.
        event: its event columns.
        event_id: its event id's columns, by their names in the stream, in the types that the fact table has for them.
    """

    name: str
    event: EventColumns
    event_id: tuple[FactColumn, ...]

    @classmethod
    def of(cls, name: str, event: EventColumns, fact: FactTable) -> HeldStream:
        """A stream whose event id's columns are all loaded into the fact table.

        Args:
            name: the stream's.
            event: its event columns.
            fact: the fact table of its pipeline.
        """
        loaded = {column.source: column for column in (*fact.columns, *fact.key)}
        columns = (replace(loaded[qualified(name, column)], source=column) for column in event.event_id)
        return cls(name, event, tuple(columns))


@dataclass(frozen=True)
class Held:
    """Stream tuples that are not facts.

    Attributes:
        fate: what has become of them; one of those that are held.
        reason: why, in words for people: one text for all, or an array with one for each tuple.
        relation: the relation whose lookup was not made or found nothing; None where it is not about one.
        tuples: shape (n,), with the source's columns, `_arrived_at`, and where they come from the source `_record`,
            `_range` and `_position`; others are ignored.
        identified: whether their event ids are to be trusted. Of records that could not be decoded they are not: the
            SHA-256 of the record's bytes stands for it.
        stream: whose tuples they are, where they are of one of several streams that are not joined yet; None: the
            pipeline's own.
    """

    fate: Fate
    reason: str | pa.StringArray
    relation: str | None
    tuples: pa.Table
    identified: bool = True
    stream: HeldStream | None = None


class Rejection(NamedTuple):
    """Why one tuple can't be a fact: its fate, and the reason in words for people."""

    fate: Fate
    reason: str


@dataclass(frozen=True)
class Outcome:
    """All that one load stores.

    Attributes:
        facts: shape (n,), with the columns of tuples that are held and the fetched ones; None if there are none.
        held: groups of tuples that are not facts.
        beside: where facts accumulate, parts that a task has besides: who stores facts takes those of their keys out.
    """

    facts: pa.Table | None
    held: list[Held] = field(default_factory=list)
    beside: PartsBeside | None = None
