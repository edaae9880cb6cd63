"""The exchange: how tuples that wait for a back stage travel to the task that owns their range of R, and wait there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.stages.batch_context import BatchContext

MISSING = "_missing"  # bit i is set while lookup i is still to be done
# Beyond this parcels go to a temporary file.
_MOST_PARCEL_BYTES = 16 << 20
# A join keeps some 40 bytes more for each key of 9.
_MOST_KEY_BYTES = 12 << 20


class Parcel(NamedTuple):
    """Tuples on their way to the partition that does their next lookup: its number, and they as arrow IPC bytes."""

    owner: int
    tuples: bytes


def page_column(lookup: int) -> str:
    """Column with the page of R on which a tuple's key would be, for one lookup."""
    return f"_page_{lookup}"


def parcels(waiting: pa.Table, context: BatchContext) -> Iterator[Parcel]:
    """Pack waiting tuples for the exchange: one parcel for each owner.

    For Spark a parcel is one value: Java moves its bytes, and makes no rows of them.

    Args:
        waiting: tuples with all fetched columns, `_missing`, and the pages of the lookups, shape (n,).
        context: the batch.
    """
    owners = _next_owners(waiting, context)
    for owner in np.unique(owners).tolist():
        yield packed(owner, waiting.filter(pa.array(owners == owner)))


def by_owner(parcels: Iterable[Parcel]) -> dict[int, list[bytes]]:
    """The tuples of each owner that has any."""
    packed_of: dict[int, list[bytes]] = defaultdict(list)
    for owner, tuples in parcels:
        packed_of[owner].append(tuples)
    return packed_of


def owner_itself(owner: int) -> int:
    """The partition of an exchange in which an owner's parcels are."""
    return owner


def packed(owner: int, tuples: pa.Table) -> Parcel:
    """Tuples as a parcel."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as stream:
        stream.write_table(tuples)
    return Parcel(owner, sink.getvalue().to_pybytes())


def unpacked(tuples: bytes) -> pa.Table:
    """The tuples of a parcel. No copy."""
    return pa.ipc.open_stream(tuples).read_all()


def with_pages(waiting: pa.Table, keys: list[KeyColumns], context: BatchContext) -> pa.Table:
    """Note for each lookup that a tuple lacks the page of R on which its key would be.

    Args:
        waiting: tuples with `_missing`, shape (n,).
        keys: their keys, for each lookup.
        context: the batch.
    """
    missing = waiting[MISSING].to_numpy()
    for plan, key in zip(context.lookups, keys, strict=True):
        pages = np.full(waiting.num_rows, -1, np.int64)
        wanted = np.flatnonzero(missing & plan.bit)
        if wanted.size:
            pages[wanted] = _pages(plan, key.take(wanted))
        waiting = waiting.append_column(page_column(plan.position), pa.array(pages))
    return waiting


def _next_owners(waiting: pa.Table, context: BatchContext) -> NDArray[np.int32]:
    """The owner of each tuple for the first lookup that it still lacks."""
    missing = waiting[MISSING].to_numpy()
    owners = np.zeros(waiting.num_rows, np.int32)
    undecided = np.ones(waiting.num_rows, bool)
    for plan in context.lookups:
        here = np.flatnonzero(undecided & ((missing & plan.bit) != 0))
        if here.size:
            pages = waiting[page_column(plan.position)].to_numpy()[here]
            owners[here] = _owners(plan, pages, context.parts)
            undecided[here] = False
    return owners


def _pages(plan: LookupPlan, keys: KeyColumns) -> NDArray[np.int64]:
    if plan.pages is None:
        # Keys without an order that we know: any spread will do, as long as equal keys stay together.
        return keys.codes & 0x7FFF_FFFF
    return plan.pages.value().index.page_of(keys)


def _owners(plan: LookupPlan, pages: NDArray[np.int64], parts: int) -> NDArray[np.int32]:
    if plan.pages is None:
        return (pages % parts).astype(np.int32)
    return plan.pages.value().ranges.owner_of(pages)


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
        # Taken is copied: the parcel itself is let go. To encode keys anew costs less than to send them encoded.
        keys = self._plan.spec.stream_keys(tuples.select(self._plan.spec.stream_columns).take(pa.array(asking)))
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
