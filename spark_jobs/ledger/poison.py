"""Poison: what of a range ends the process that decodes it. The ledger knows it, and nobody decodes it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # tasks that decode know it, and need no database
    from psycopg2 import extensions

_WHOLE = -1


class PoisonSpan(NamedTuple):
    """A stretch of positions, mostly of one record.

    Attributes:
        first: the first position.
        last: the position after the last one.
        how: how the process ended.
    """

    first: int
    last: int
    how: str

    @classmethod
    def of_file(cls, how: str) -> PoisonSpan:
        """A whole file, of which no record can be told to be the one."""
        return cls(_WHOLE, _WHOLE, how)

    @property
    def is_of_file(self) -> bool:
        """Whether it is a whole file."""
        return self.first == _WHOLE

    @property
    def reason(self) -> str:
        """Why its records are rejected."""
        beside = "" if self.last - self.first == 1 else ", or one beside it did"
        return f"malformed: reading this record ended the process that read it ({self.how}){beside}"


Poison = tuple[PoisonSpan, ...]


def poison_of(stated: Iterable[tuple[int, int, str]] | None) -> Poison:
    """Poison as `freshet.source_range` states it; null: there is none."""
    return tuple(PoisonSpan(*each) for each in stated or ())


def note_poison(cursor: extensions.cursor, batch_no: int, poison: Sequence[Poison]) -> None:
    """Note the poison of all ranges of an open batch, in its order; in a transaction of the batch's driver."""
    cursor.execute(
        """
        UPDATE freshet.source_range AS range SET poison = noted.poison
        FROM (SELECT range_id, row_number() OVER (ORDER BY range_id) AS number
              FROM freshet.source_range WHERE batch_no = %(batch)s) AS numbered
        JOIN unnest(%(poison)s::jsonb[]) WITH ORDINALITY AS noted (poison, number) USING (number)
        WHERE range.range_id = numbered.range_id AND noted.poison IS NOT NULL
        """,
        {"batch": batch_no, "poison": [json.dumps(each) if each else None for each in poison]},
    )
