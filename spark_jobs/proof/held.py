"""The held tuples as a proof compares them: by the codes of what they keep of their records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.columns.hashing import hash_bytes
from spark_jobs.definition.shapes import Tuples
from spark_jobs.loading.bloom_filter import BloomFilter
from spark_jobs.loading.payload import payload_bytes, tuple_objects
from spark_jobs.proof.staged_events import copy_in
from spark_jobs.proof.stored_tuples import StoredTuples
from spark_jobs.source.records.json_blocks import decode_json

Int64Array = NDArray[np.int64]

_TUPLES_AT_ONCE = 20_000
_MOST_FILTER_BYTES = 64 << 20
_HELD = "SELECT event_id, payload, payload_encoding, source_unit IS NULL FROM {held}"
_DIGESTS = """
    SELECT event_id FROM {held} WHERE event_id LIKE {digest} UNION SELECT event_id FROM {pruned}
    WHERE event_id LIKE {digest}
"""

ObjectCodes = Callable[[pa.Table], Int64Array]
"""Codes of tuples by their values, int64, shape (n,)."""


class HeldTuples:
    """Held tuples of one kind: what is needed of them to tell landed records that may be held, and payloads.

    It makes the temporary table `stored.kept`, one row for each: `event_id`; `record`, the code of its payload's bytes;
    `object`, where the payload was made of columns (of a tuple that does not come of bytes, or by a former version) the
    code of what its values make with the present schema; `is_record`, where the id is a digest, whether it is that of
    the payload.

    Args:
        cursor: in the proof's transaction, whose end drops the table.
        stored: which tuples.
        tuples: what they are like.
        object_codes: codes of tuples by their values; default: those of the objects that payloads are made of.

    Attributes:
        digests: the ids that are digests, of the tuples that are held, and of those that were until retention deleted
            them.
        has_objects: whether payloads were made of columns.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        stored: StoredTuples,
        tuples: Tuples,
        object_codes: ObjectCodes | None = None,
    ) -> None:
        self._columns = tuples.columns
        self._makes_objects = tuples.source is None or tuples.source.record_format.holds_columns
        self._codes_of_objects = object_codes or self._usual_codes
        self.has_objects = False
        parts = {"held": stored.held, "pruned": stored.pruned, "digest": sql.Literal(digest_id("%"))}
        cursor.execute(sql.SQL(_DIGESTS).format(**parts))
        self.digests = {event_id for (event_id,) in cursor}
        cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(stored.held))
        [(count,)] = cursor.fetchall()
        self._filter = BloomFilter(min(BloomFilter.memory_for(count), _MOST_FILTER_BYTES))
        cursor.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} (event_id text NOT NULL, record bigint NOT NULL, object bigint, "
                "is_record boolean) ON COMMIT DROP"
            ).format(stored.kept)
        )
        with cursor.connection.cursor("held") as rows:
            rows.itersize = _TUPLES_AT_ONCE
            rows.execute(sql.SQL(_HELD).format(held=stored.held))
            while part := rows.fetchmany(_TUPLES_AT_ONCE):
                copy_in(cursor, stored.kept, self._kept(part))
        cursor.execute(sql.SQL("ANALYZE {}").format(stored.kept))

    def may_hold(self, event_ids: pa.Array) -> NDArray[np.bool_]:
        """False for event ids that are certainly not held, bool, shape (n,)."""
        return self._filter.may_contain(codes_of(event_ids))

    def _kept(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        ids, texts, encodings, former = (pa.array(column) for column in zip(*rows, strict=True))
        self._filter.add(codes_of(ids))
        records = payload_bytes(texts, encodings)
        is_record = [
            digest_id(hashlib.sha256(record.as_buffer()).hexdigest()) == event_id if event_id.startswith("{") else None
            for event_id, record in zip(ids.to_pylist(), records, strict=True)
        ]
        codes = codes_of(records)
        made = pa.repeat(True, len(rows)) if self._makes_objects else former
        objects = self._object_codes(records, np.flatnonzero(made))
        return pa.table([ids, pa.array(codes), objects, pa.array(is_record, pa.bool_())], names=[*"abcd"])

    def _object_codes(self, records: pa.Array, rows: Int64Array) -> pa.Array:
        """The codes of what these payloads are with the present schema; null for those that are none of its objects."""
        codes, known = np.zeros(len(records), np.int64), np.zeros(len(records), bool)
        if rows.size:
            self.has_objects = True
            decoded = decode_json(records.take(pa.array(rows)), self._columns)
            codes[rows] = self._codes_of_objects(decoded.tuples)
            known[rows] = decoded.reasons.is_null().to_numpy(zero_copy_only=False)
        return pa.array(codes, mask=~known)

    def _usual_codes(self, tuples: pa.Table) -> Int64Array:
        return codes_of(tuple_objects(tuples, tuple(self._columns)))


def codes_of(values: pa.Array) -> Int64Array:
    """Hash codes of strings or byte strings, int64, shape (n,); arbitrary for nulls."""
    return hash_bytes(*binary_parts(values))


def digest_id(digest: str) -> str:
    """The id of a held tuple that is known by a digest only."""
    return f'{{"sha256":"{digest}"}}'
