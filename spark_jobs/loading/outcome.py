"""What a task hands to the loader: joined tuples, which are facts, and tuples to hold, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.definition.stream_tuple import Place


@dataclass(frozen=True)
class Held:
    """Stream tuples that are not facts.

    Attributes:
        place: shed (not looked up, for lack of time), unmatched (key not in R) or rejected (bad input).
        reason: why: one text for all, or an array with one for each tuple.
        relation: the relation whose lookup was not made or found nothing; None where it is not about one.
        tuples: shape (n,), with the source's columns, `_arrived_at`, and where they come from the source `_record`,
            `_range` and `_position`; others are ignored.
        identified: whether their event ids are to be trusted. Of records that could not be decoded they are not: the
            SHA-256 of the record's bytes stands for it.
    """

    place: Place
    reason: str | pa.StringArray
    relation: str | None
    tuples: pa.Table
    identified: bool = True


@dataclass(frozen=True)
class Outcome:
    """All that one load stores.

    Attributes:
        facts: shape (n,), with the columns of tuples that are held and the fetched ones; None if there are none.
        held: groups of tuples that are not facts.
    """

    facts: pa.Table | None
    held: list[Held] = field(default_factory=list)
