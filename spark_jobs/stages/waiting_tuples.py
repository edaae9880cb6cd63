"""Stream tuples that wait for a back stage: their keys and pages in memory, they themselves aside until it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.relation.keys.key_columns import KeyColumns
from spark_jobs.stages.batch_context import LookupPlan
from spark_jobs.stages.exchange import MISSING, page_column, unpacked
from spark_jobs.stages.fetching import stream_keys

# Beyond this parcels go to a temporary file.
_MOST_PARCEL_BYTES = 16 << 20
# A join keeps some 40 bytes more for each key of 9.
_MOST_KEY_BYTES = 12 << 20


class WaitingTuples:
    """What one join of a back stage does at once: the tuples of some parcels, n of which ask for the lookup.

    The join sees all keys together, so that each page of R is read once; what it finds is then put to the tuples parcel
    by parcel, so that only some of them are unpacked at any time.

    Args:
        plan: the lookup.
    """

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan
        self._aside = SpooledTemporaryFile(_MOST_PARCEL_BYTES)  # noqa: SIM115
        self._parcels: list[tuple[int, int]] = []  # bytes of each, and how many of its tuples ask
        self._keys: list[KeyColumns] = []
        self._pages: list[NDArray[np.int64]] = []
        self._key_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether more keys would take too much memory."""
        return self._key_bytes >= _MOST_KEY_BYTES

    def __enter__(self) -> WaitingTuples:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.close()

    def take(self, parcel: bytes) -> None:
        """Take the tuples of a parcel."""
        tuples = unpacked(parcel)
        asking = np.flatnonzero(self.asking(tuples))
        keys = stream_keys(tuples, self._plan).take(asking)  # a copy: the parcel itself is let go
        self._keys.append(keys)
        self._pages.append(tuples[page_column(self._plan.position)].to_numpy()[asking])
        self._key_bytes += keys.nbytes
        self._parcels.append((self._aside.write(parcel), len(keys)))

    def asking(self, tuples: pa.Table) -> NDArray[np.bool_]:
        """Which tuples lack the lookup, bool, shape (n,)."""
        lacking: NDArray[np.bool_] = (tuples[MISSING].to_numpy() & self._plan.bit) != 0
        return lacking

    def keys_and_pages(self) -> tuple[KeyColumns, NDArray[np.int64]]:
        """The keys of those that ask, shape (n,), and the pages of R that they wait for, int64, shape (n,). Once."""
        keys, self._keys = KeyColumns.concatenate(self._keys), []
        pages, self._pages = np.concatenate(self._pages), []
        return keys, pages

    def parcels(self) -> Iterator[tuple[pa.Table, slice]]:
        """The tuples again, some at a time, and where among those that ask theirs are."""
        self._aside.seek(0)
        start = 0
        for size, count in self._parcels:
            yield unpacked(self._aside.read(size)), slice(start, start + count)
            start += count


def in_joins(packed: Iterable[bytes], plan: LookupPlan) -> Iterator[WaitingTuples]:
    """The tuples of a task's parcels, as many in one join as bounded memory allows.

    Args:
        packed: the parcels.
        plan: the lookup.
    """
    parcels = iter(packed)
    parcel = next(parcels, None)
    while parcel is not None:
        with WaitingTuples(plan) as waiting:
            while parcel is not None and not waiting.is_full:
                waiting.take(parcel)
                parcel = next(parcels, None)
            yield waiting
