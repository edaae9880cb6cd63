"""Which events are held already, or were until retention deleted them: sent again, they are duplicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.columns.event_id import event_hashes, event_id_texts
from spark_jobs.definition.correlation import STREAM_SEPARATOR
from spark_jobs.loading.bloom_filter import BloomFilter
from spark_jobs.loading.event_hashes import hashes_of
from spark_jobs.loading.held_rows import HeldRows, hash_of_name
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]

_IDS_PER_QUERY = 20_000
_KNOWN = """
    SELECT event_id, event_hash, batch_no FROM freshet.held_tuple WHERE pipeline = %(pipeline)s
    UNION ALL
    SELECT event_id, event_hash, batch_no FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s
"""
# Every thread that loads has a filter; one of the most memory bears some 50 million codes.
_LEAST_MEMORY, _MOST_MEMORY = 8 << 20, 64 << 20


class HeldEarlier:
    """Remembers which event ids earlier batches of a pipeline hold or held once, for one epoch of its driver.

    When a batch is open, all earlier ones are closed: no tuple can be added to what they hold. So the filter over
    them is brought up to date once a batch, by those of the batches since the last time. It can't forget tuples that
    have become facts: when it is full it is made anew, of the others, with room for as many again.

    Args:
        pipeline: its name.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._filter = BloomFilter(_LEAST_MEMORY)
        self._through = -1  # all batches up to this one are in the filter; what was pruned before 0007 has 0
        self._renewed_with = 0  # codes that were in it when it was new

    def among(self, cursor: extensions.cursor, tuples: pa.Table, fact: FactTable, batch_no: int) -> Bools:
        """Which of these tuples a batch before `batch_no` holds, or held until retention deleted them.

        The transaction must have found `batch_no` to be open. What the same batch holds is not looked at: the
        ledger settles that when the batch is closed.

        Args:
            cursor: in that transaction.
            tuples: shape (n,), with the columns of the event id, and their hash codes.
            fact: the fact table.
            batch_no: the open batch.

        Returns:
            bool, shape (n,). A query a batch; for each false alarm or hit of the filter an index probe.
        """
        suspects = self._suspects(cursor, lambda: hashes_of(tuples), batch_no)
        return self._confirmed(
            cursor, tuples.num_rows, suspects, event_id_texts(tuples.take(pa.array(suspects)), fact.key).to_pylist()
        )

    def among_rows(self, cursor: extensions.cursor, rows: HeldRows, batch_no: int) -> Bools:
        """As `among`, for tuples that are to be held."""
        suspects = self._suspects(cursor, lambda: rows.hashes, batch_no)
        event_ids = rows.event_ids if suspects.size else []
        return self._confirmed(cursor, len(rows), suspects, [event_ids[suspect] for suspect in suspects])

    def among_stream(
        self, cursor: extensions.cursor, tuples: pa.Table, key: Sequence[FactColumn], stream: str, batch_no: int
    ) -> Bools:
        """As `among`, for events of one of several streams; `key` are the columns of its event id."""
        suspects = self._suspects(cursor, lambda: event_hashes(tuples, key) ^ hash_of_name(stream), batch_no)
        texts = event_id_texts(tuples.take(pa.array(suspects)), key).to_pylist()
        return self._confirmed(cursor, tuples.num_rows, suspects, [stream + STREAM_SEPARATOR + text for text in texts])

    def _suspects(self, cursor: extensions.cursor, hashes: Callable[[], Int64Array], batch_no: int) -> Int64Array:
        """Numbers of the tuples that the filter takes for known."""
        self._extend(cursor, batch_no)
        return np.flatnonzero(self._filter.may_contain(hashes())) if self._filter.added else np.empty(0, np.int64)

    def _confirmed(
        self, cursor: extensions.cursor, count: int, suspects: Int64Array, event_ids: Sequence[str]
    ) -> Bools:
        """Which of `count` tuples are known indeed: some of the suspects, which have these event ids."""
        known = np.zeros(count, np.bool_)
        known[suspects] = _known_ids(cursor, self._pipeline, event_ids)
        return known

    def _extend(self, cursor: extensions.cursor, batch_no: int) -> None:
        if batch_no - 1 == self._through:
            return
        if batch_no - 1 < self._through:
            self._through = -1  # another database: nothing in the filter is of use
        if self._through < 0 or self._is_full:
            self._renew(cursor, batch_no)
        else:
            self._add(cursor, self._filter, batch_no)
        self._through = batch_no - 1

    @property
    def _is_full(self) -> bool:
        """Whether it bears no more, and enough was added that rebuilding it costs little by comparison."""
        return self._filter.added > max(self._filter.bears, 2 * self._renewed_with)

    def _renew(self, cursor: extensions.cursor, batch_no: int) -> None:
        """Make the filter anew, without facts. O(held and pruned), for at least as many codes added since the last."""
        cursor.execute(
            f"SELECT count(*) FROM ({_KNOWN}) AS known WHERE batch_no < %(batch_no)s",
            {"pipeline": self._pipeline, "batch_no": batch_no},
        )
        [(held,)] = cursor.fetchall()
        self._through = -1
        renewed = BloomFilter(min(max(BloomFilter.memory_for(2 * held), _LEAST_MEMORY), _MOST_MEMORY))
        self._add(cursor, renewed, batch_no)
        self._filter, self._renewed_with = renewed, renewed.added

    def _add(self, cursor: extensions.cursor, held: BloomFilter, batch_no: int) -> None:
        """Add what the batches hold that are not in the filter yet."""
        with cursor.connection.cursor("held_earlier") as hashes:
            hashes.itersize = 1
            # One row a batch, with all its hash codes.
            hashes.execute(
                f"""
                SELECT string_agg(int8send(event_hash), ''::bytea) FROM ({_KNOWN}) AS known
                WHERE batch_no > %(through)s AND batch_no < %(batch_no)s GROUP BY batch_no ORDER BY batch_no
                """,
                {"pipeline": self._pipeline, "through": self._through, "batch_no": batch_no},
            )
            for (codes,) in hashes:
                held.add(np.frombuffer(codes, ">i8").astype(np.int64))


def _known_ids(cursor: extensions.cursor, pipeline: str, event_ids: Sequence[str]) -> Bools:
    """Which of these event ids are held or pruned, bool, shape (n,)."""
    known: set[str] = set()
    for start in range(0, len(event_ids), _IDS_PER_QUERY):
        # One statement: a tuple that is pruned meanwhile is seen in one of the two tables.
        cursor.execute(
            f"SELECT event_id FROM ({_KNOWN}) AS known WHERE event_id = ANY (%(event_ids)s)",
            {"pipeline": pipeline, "event_ids": list(event_ids[start : start + _IDS_PER_QUERY])},
        )
        known.update(event_id for (event_id,) in cursor.fetchall())
    return np.array([event_id in known for event_id in event_ids], np.bool_)
