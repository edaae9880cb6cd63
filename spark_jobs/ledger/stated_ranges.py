"""What the ledger says of a source's ranges, for the proof: what was read of each unit, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.kinds import KINDS
from spark_jobs.ledger.poison import Poison, poison_of

_RANGES_AT_ONCE = 10_000

# A batch that is open has not committed what it reads. What it has stored of a range that it did not read to its end is
# what its other ranges do not account for: their records are stored, too, or are duplicates. Of several streams, what
# is stored are results; a damaged file is found before its first record, so that nothing of it is.
_RANGES = """
    SELECT unit, first, last, size, modified_ns, records, reason, batch_no, removed_at IS NOT NULL,
        CASE WHEN batch.state = 'started' AND source_range.state = 'loaded' THEN 'planned' ELSE source_range.state END,
        range_id,
        CASE WHEN batch.batch_no IS NULL OR (source_range.state <> 'lost' AND reason IS NULL) THEN NULL
            WHEN EXISTS (SELECT FROM freshet.batch_stream AS stream WHERE stream.batch_no = batch.batch_no)
                THEN CASE WHEN records = 0 THEN 0 END
            WHEN batch.state = 'started' THEN (
                SELECT coalesce(sum(part.facts + part.shed + part.unmatched + part.rejected), 0)
                FROM freshet.batch_part AS part WHERE part.batch_no = batch.batch_no)
            ELSE least(stored, greatest(stored + duplicates - (
                SELECT coalesce(sum(other.records), 0) FROM freshet.source_range AS other
                WHERE other.batch_no = batch.batch_no AND other.state <> 'lost' AND other.reason IS NULL), 0))
        END::bigint,
        dismissed_at IS NOT NULL, poison, kind
    FROM freshet.source_range LEFT JOIN freshet.batch USING (batch_no)
        CROSS JOIN LATERAL (SELECT facts + shed + unmatched + rejected AS stored) AS counted
    WHERE source_range.pipeline = %s AND starts_with(unit, %s)
    ORDER BY unit, modified_ns, size, first
"""


class LedgerRange(NamedTuple):
    """A range in the ledger; fields as in freshet.source_range.

    Attributes:
        was_removed: whether the driver has removed the unit after it was loaded.
        most_stored: of a range that was given up, how many of its records may be stored; None where that is not known.
        was_dismissed: whether an operator wants to be told no more that it was not loaded.
        stated_poison: what of it is not decoded, as the ledger states it.
        kind: of the source that it was planned in.
    """

    unit: str
    first: int
    last: int
    size: int | None
    modified_ns: int | None
    records: int | None
    reason: str | None
    batch_no: int | None
    was_removed: bool
    state: str
    range_id: int
    most_stored: int | None
    was_dismissed: bool
    stated_poison: list[tuple[int, int, str]] | None
    kind: str

    @classmethod
    def by_unit(cls, cursor: extensions.cursor, pipeline: str, prefix: str) -> Iterator[tuple[str, list[LedgerRange]]]:
        """All ranges of a pipeline whose units begin so, unit by unit; in bounded memory but for those of one unit."""
        with cursor.connection.cursor("ranges") as rows:
            rows.itersize = _RANGES_AT_ONCE
            rows.execute(_RANGES, [pipeline, prefix])
            for unit, of_unit in groupby(map(cls._make, rows), lambda each: each.unit):
                yield unit, list(of_unit)

    @property
    def was_loaded(self) -> bool:
        """Whether its records were loaded, be it that its unit is, or was, to be read once more."""
        return self.state == "loaded" or (self.state in {"to retry", "retried"} and self.reason is None)

    @property
    def was_given_up(self) -> bool:
        """Whether a batch has not read it to its end: some of its records may have been stored until then."""
        if self.state in {"set aside", "to retry", "retried"}:
            return self.batch_no is not None and self.reason is not None
        return self.state == "lost" and self.batch_no is not None

    def most_records(self, room: int | None) -> int | None:
        """How many records of it the warehouse may know at most; None where nothing bounds them.

        Args:
            room: how many records it has room for, as its source tells; None: that is not known.
        """
        if self.records is not None and not self.was_given_up:
            return self.records
        return min((bound for bound in (self.most_stored, room) if bound is not None), default=None)

    @property
    def poison(self) -> Poison:
        """What of it is not decoded."""
        return poison_of(self.stated_poison)

    @property
    def measure(self) -> str:
        """What its places are, in words."""
        return "offsets" if self.kind in KINDS and KINDS[self.kind].is_log else "bytes"
