"""The held tuples as a proof compares them: by the codes of what they keep of their records."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.joins.structures.hashing import hash_bytes
from spark_jobs.loading.held_earlier import HeldFilter
from spark_jobs.loading.payload import payload_bytes, tuple_objects
from spark_jobs.proof.staged_events import copy_in
from spark_jobs.relation.arrow_buffers import binary_parts
from spark_jobs.source.records import decode_records

KEPT = sql.Identifier("pg_temp", "kept")

_TUPLES_AT_ONCE = 20_000
_MOST_FILTER_BYTES = 64 << 20
_HELD = """
    SELECT event_id, payload, payload_encoding, source_unit IS NULL FROM freshet.held_tuple WHERE pipeline = %s
"""
_DIGESTS = """
    SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id LIKE %(digest)s
    UNION SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s AND event_id LIKE %(digest)s
"""


class HeldTuples:
    """The held tuples of a pipeline: what is needed of them to tell landed records that may be held, and payloads.

    It makes the temporary table `kept`, one row for each held tuple: `event_id`; `record`, the code of its payload's
    bytes; `object`, where the payload was made of columns (of a Parquet file's tuple, or by a former version) the code
    of the object that its values make with the present schema; `is_record`, where the id is a digest, whether it is
    that of the payload.

    Args:
        cursor: in the proof's transaction, whose end drops the table.
        definition: the pipeline.

    Attributes:
        digests: the ids that are digests, of the tuples that are held, and of those that were until retention deleted
            them.
        has_objects: whether payloads were made of columns.
    """

    def __init__(self, cursor: extensions.cursor, definition: PipelineDefinition) -> None:
        self._columns = definition.source.columns
        self._makes_objects = definition.source.format == "parquet"
        self.has_objects = False
        cursor.execute(_DIGESTS, {"pipeline": definition.name, "digest": digest_id("%")})
        self.digests = {event_id for (event_id,) in cursor}
        cursor.execute("SELECT count(*) FROM freshet.held_tuple WHERE pipeline = %s", [definition.name])
        [(count,)] = cursor.fetchall()
        self._filter = HeldFilter(min(HeldFilter.memory_for(count), _MOST_FILTER_BYTES))
        cursor.execute(
            "CREATE TEMPORARY TABLE kept (event_id text NOT NULL, record bigint NOT NULL, object bigint, "
            "is_record boolean) ON COMMIT DROP"
        )
        with cursor.connection.cursor("held") as rows:
            rows.itersize = _TUPLES_AT_ONCE
            rows.execute(_HELD, [definition.name])
            while part := rows.fetchmany(_TUPLES_AT_ONCE):
                copy_in(cursor, KEPT, self._kept(part))
        cursor.execute(sql.SQL("ANALYZE {}").format(KEPT))

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

    def _object_codes(self, records: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
        """The codes of the objects that these payloads are with the present schema; null for those that are none."""
        codes, known = np.zeros(len(records), np.int64), np.zeros(len(records), bool)
        if rows.size:
            self.has_objects = True
            decoded = decode_records(records.take(pa.array(rows)), "json", self._columns, {})
            codes[rows] = codes_of(tuple_objects(decoded.tuples, tuple(self._columns)))
            known[rows] = decoded.reasons.is_null().to_numpy(zero_copy_only=False)
        return pa.array(codes, mask=~known)


def codes_of(values: pa.Array) -> NDArray[np.int64]:
    """Hash codes of strings or byte strings, int64, shape (n,); arbitrary for nulls."""
    return hash_bytes(*binary_parts(values))


def digest_id(digest: str) -> str:
    """The id of a held tuple that is known by a digest only."""
    return f'{{"sha256":"{digest}"}}'
