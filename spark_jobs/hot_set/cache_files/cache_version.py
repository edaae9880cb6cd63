"""One version of a front stage's hot tuples, as it is kept on disk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.relation.relation_rows import RelationRows

Origin = Literal["learned", "rebuilt"]
"""Who wrote a version: a driver, with the tuples as it had read them, or the rebuild job, which has just read them."""


@dataclass(frozen=True, eq=False)
class CacheVersion:
    """The hot tuples of one lookup at one time.

    Attributes:
        version: its number; the store gives a higher one where another version has it already.
        origin: who wrote it.
        built_at: when, with a time zone.
        rows: the hot tuples of R in slot order, n tuples.
        frequencies: float32, shape (n,), how often each was found lately.
        noticed: pg_snapshot as text: the tuples are at least as new as R was for the transactions visible in it.
            None where that is not known.
    """

    version: int
    origin: Origin
    built_at: datetime
    rows: RelationRows
    frequencies: NDArray[np.float32]
    noticed: str | None = None
