"""Which tuples are held already: an event id that is held must not become a fact by a later duplicate."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.warehouse.event_id import event_hashes, event_id_texts
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.loading.held_filter import HeldFilter

Bools = NDArray[np.bool_]

_IDS_PER_QUERY = 20_000
# Every thread that loads has a filter; one of the most memory bears some 50 million codes.
_LEAST_MEMORY, _MOST_MEMORY = 8 << 20, 64 << 20


class HeldEarlier:
    """Remembers which event ids earlier batches of a pipeline hold, for one epoch of its driver.

    When a batch is open, all earlier ones are closed: no tuple can be added to what they hold. So the filter over
    them is brought up to date once a batch, by those of the batches since the last time. It can't forget tuples that
    are held no longer: when it is full it is made anew, of those that still are, with room for as many again.

    Args:
        pipeline: its name.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._forget()

    def _forget(self) -> None:
        self._filter = HeldFilter(_LEAST_MEMORY)
        self._through = 0  # all batches up to this one are in the filter
        self._renewed_with = 0  # so many codes were in it when it was new

    def among(self, cursor: extensions.cursor, tuples: pa.Table, fact: FactTable, batch_no: int) -> Bools:
        """Which of these tuples are held by a batch before `batch_no`.

        The transaction must have found `batch_no` to be open. What the same batch holds is not looked at: the
        ledger settles that when the batch is closed.

        Args:
            cursor: in that transaction.
            tuples: shape (n,), with the columns of the event id.
            fact: the fact table.
            batch_no: the open batch.

        Returns:
            bool, shape (n,). A query a batch; for each false alarm or hit of the filter an index probe.
        """
        self._extend(cursor, batch_no)
        held = np.zeros(tuples.num_rows, np.bool_)
        if not self._filter.added:
            return held
        suspects = np.flatnonzero(self._filter.may_contain(event_hashes(tuples, fact.key)))
        if suspects.size:
            texts = event_id_texts(tuples.take(pa.array(suspects)), fact.key)
            held[suspects] = _held_ids(cursor, self._pipeline, texts.to_pylist())
        return held

    def _extend(self, cursor: extensions.cursor, batch_no: int) -> None:
        if batch_no - 1 < self._through:  # another database
            self._forget()
        if batch_no - 1 == self._through:
            return
        if self._through == 0 or self._is_full:
            self._renew(cursor, batch_no)
        else:
            self._add(cursor, self._filter, batch_no)
        self._through = batch_no - 1

    @property
    def _is_full(self) -> bool:
        """Whether it bears no more, and so much was added that making it anew costs little beside that."""
        return self._filter.added > max(self._filter.bears, 2 * self._renewed_with)

    def _renew(self, cursor: extensions.cursor, batch_no: int) -> None:
        """Make the filter anew, of what is held now. O(held), for at least as many codes added since the last time."""
        cursor.execute(
            "SELECT count(*) FROM freshet.held_tuple WHERE pipeline = %s AND batch_no < %s", [self._pipeline, batch_no]
        )
        [(held,)] = cursor.fetchall()
        self._forget()
        renewed = HeldFilter(min(max(HeldFilter.memory_for(2 * held), _LEAST_MEMORY), _MOST_MEMORY))
        self._add(cursor, renewed, batch_no)
        self._filter, self._renewed_with = renewed, renewed.added

    def _add(self, cursor: extensions.cursor, held: HeldFilter, batch_no: int) -> None:
        """Add what the batches hold that are not in the filter yet."""
        with cursor.connection.cursor("held_earlier") as hashes:
            hashes.itersize = 1
            # One row a batch, with all its hash codes.
            hashes.execute(
                """
                SELECT string_agg(int8send(event_hash), ''::bytea) FROM freshet.held_tuple
                WHERE pipeline = %s AND batch_no > %s AND batch_no < %s AND starts_with(event_id, '[')
                GROUP BY batch_no ORDER BY batch_no
                """,
                [self._pipeline, self._through, batch_no],
            )
            for (codes,) in hashes:
                held.add(np.frombuffer(codes, ">i8").astype(np.int64))


def _held_ids(cursor: extensions.cursor, pipeline: str, event_ids: list[str]) -> Bools:
    """Which of these event ids are held now, bool, shape (n,)."""
    held: set[str] = set()
    for start in range(0, len(event_ids), _IDS_PER_QUERY):
        cursor.execute(
            "SELECT event_id FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s)",
            [pipeline, event_ids[start : start + _IDS_PER_QUERY]],
        )
        held.update(event_id for (event_id,) in cursor.fetchall())
    return np.array([event_id in held for event_id in event_ids], np.bool_)
