"""Held tuples as rows of freshet.held_tuple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import psycopg2.errors
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.columns.arrow_buffers import plain_array
from spark_jobs.columns.copy_encoding.characters import storable, text_faults
from spark_jobs.columns.copy_encoding.column_encoder import PostgresType, Target
from spark_jobs.columns.copy_encoding.numbers_and_times import TIMESTAMPTZ, utc_times
from spark_jobs.columns.copy_encoding.rows import EncodedRows, encode
from spark_jobs.columns.event_id import MOST_CHARACTERS, event_id_texts, first_of_each, may_be_too_long
from spark_jobs.columns.hashing import hash_bytes
from spark_jobs.definition.fates import UNIDENTIFIED, Place
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, EventColumns
from spark_jobs.loading.event_hashes import EVENT_HASH, codes, hashes_of, with_hashes
from spark_jobs.loading.outcome import Held
from spark_jobs.loading.payload import digest_hashes, digests, payloads
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_table import FactColumn

_TEXT = PostgresType("text", "text")
_BIGINT = PostgresType("int8", "bigint")
_COLUMNS = {
    "pipeline": _TEXT,
    "event_id": _TEXT,
    "event_hash": _BIGINT,
    "place": _TEXT,
    "fate": _TEXT,
    "reason": _TEXT,
    "relation": _TEXT,
    "payload": _TEXT,
    "payload_encoding": _TEXT,
    "source_unit": _TEXT,
    "source_position": _BIGINT,
    "event_time": TIMESTAMPTZ,
    "arrived_at": TIMESTAMPTZ,
    "batch_no": _BIGINT,
    "correlation_key": _TEXT,
}
_NULLABLE = ("relation", "event_time", "source_unit", "source_position", "correlation_key")
_TARGETS = [Target(name, name, kind, name in _NULLABLE) for name, kind in _COLUMNS.items()]
_NAMES = ", ".join(_COLUMNS)


class HeldRows:
    """Held tuples, built before the transaction that stores them.

    Args:
        table: shape (n,), the columns of freshet.held_tuple that a loader fills; None for no rows.
    """

    def __init__(self, table: pa.Table | None) -> None:
        self._table = table

    @classmethod
    def build(
        cls,
        held: Sequence[Held],
        event: EventColumns,
        key: Sequence[FactColumn],
        batch_no: int,
        units: Sequence[str] = (),
    ) -> HeldRows:
        """Rows for groups of tuples.

        Args:
            held: the groups.
            event: the pipeline's event columns.
            key: columns of the event id.
            batch_no: the batch that holds them.
            units: what its ranges lie in, by their numbers: the files.
        """
        named = pa.array(units, pa.string())
        parts = [_rows(group, event, key, batch_no, named) for group in held if group.tuples.num_rows]
        return cls(pa.concat_tables(parts) if parts else None)

    def __len__(self) -> int:
        return self._table.num_rows if self._table is not None else 0

    @property
    def event_ids(self) -> list[str]:
        """Event ids as freshet.held_tuple has them."""
        return self._table["event_id"].to_pylist() if self._table is not None else []

    @property
    def hashes(self) -> np.ndarray:
        """Hash codes of the event ids, int64, shape (n,)."""
        if self._table is None:
            return np.empty(0, np.int64)
        return codes(self._table["event_hash"])

    def with_keys(self, keys: pa.ChunkedArray) -> HeldRows:
        """The rows as parts of accumulating facts, whose keys these are; string array, shape (n,)."""
        if self._table is None:
            return self
        return HeldRows(
            self._table.set_column(self._table.column_names.index("correlation_key"), "correlation_key", keys)
        )

    def without(self, dropped: np.ndarray) -> HeldRows:
        """The rows that are not dropped; bool, shape (n,)."""
        return HeldRows(self._table.filter(pa.array(~dropped)) if self._table is not None else None)

    def joined(self, more: HeldRows) -> HeldRows:
        """These rows and more."""
        tables = [rows._table for rows in (self, more) if rows._table is not None]
        return HeldRows(pa.concat_tables(tables) if tables else None)

    def encoded(self) -> EncodedRows:
        """As freshet.held_tuple takes them; at least one."""
        assert self._table is not None
        rows, _, unfit, complaints = encode(self._table, _TARGETS)
        assert not unfit.size, complaints[0]  # everything was made storable
        return rows

    @property
    def places(self) -> Counter[Place]:
        """How many there are of each place."""
        return Counter(self._table["place"].to_pylist()) if self._table is not None else Counter()

    def store(self, cursor: extensions.cursor) -> np.ndarray:
        """Store those whose event ids are not held yet; of several with one id the first.

        Args:
            cursor: in a transaction.

        Returns:
            which were stored, bool, shape (n,).
        """
        if self._table is None or not len(self):
            return np.empty(0, np.bool_)
        ids = self._table["event_id"]
        new = first_of_each(self.hashes, lambda numbers: plain_array(ids.take(pa.array(numbers))))
        rows = (self if new.all() else self.without(~new)).encoded()
        cursor.execute("SAVEPOINT before_held")
        try:
            _copy(cursor, "freshet.held_tuple", rows)
        except psycopg2.errors.UniqueViolation:
            cursor.execute("ROLLBACK TO before_held")
            stored = _insert_new(cursor, rows)
            return new & pc.is_in(ids, pa.array(stored, ids.type)).to_numpy()
        cursor.execute("RELEASE before_held")
        return new


def _copy(cursor: extensions.cursor, table: str, rows: EncodedRows) -> None:
    cursor.copy_expert(f"COPY {table} ({_NAMES}) FROM STDIN (FORMAT binary)", rows.stream(), size=1 << 20)


def _insert_new(cursor: extensions.cursor, rows: EncodedRows) -> list[str]:
    """Event ids of those that were stored."""
    cursor.execute(
        f"CREATE TEMPORARY TABLE freshet_held ON COMMIT DROP AS SELECT {_NAMES} FROM freshet.held_tuple WITH NO DATA"
    )
    _copy(cursor, "freshet_held", rows)
    # In the order of the key, so that two loaders of the same tuples can't wait for each other in a circle.
    cursor.execute(
        f"""
        INSERT INTO freshet.held_tuple ({_NAMES}) SELECT {_NAMES} FROM freshet_held ORDER BY event_id
        ON CONFLICT DO NOTHING RETURNING event_id
        """
    )
    stored = [event_id for (event_id,) in cursor.fetchall()]
    cursor.execute("DROP TABLE freshet_held")
    return stored


def _rows(held: Held, event: EventColumns, key: Sequence[FactColumn], batch_no: int, units: pa.Array) -> pa.Table:
    tuples = held.tuples
    if held.stream is not None:
        event, key = held.stream.event, held.stream.event_id
    payload = payloads(tuples, event)
    event_ids, hashes = _identities(held, payload.records, key)
    if held.stream is not None:
        event_ids, hashes = _of_stream(held.stream.name, event_ids, hashes)
    count = tuples.num_rows
    columns = {
        "pipeline": pa.repeat(event.pipeline, count),
        "event_id": event_ids,
        "event_hash": pa.array(hashes),
        "place": pa.repeat(held.fate.place, count),
        "fate": pa.repeat(held.fate.name, count),
        "reason": storable_reasons(held.reason, count),
        "relation": pa.repeat(pa.scalar(held.relation, pa.string()), count),
        "payload": payload.texts,
        "payload_encoding": payload.encodings,
        "source_unit": units.take(_origin(tuples, RANGE)) if len(units) else pa.nulls(count, pa.string()),
        "source_position": _origin(tuples, POSITION),
        "event_time": utc_times(plain_array(tuples[event.event_time])),
        "arrived_at": utc_times(plain_array(tuples[ARRIVED_AT])).fill_null(datetime.now(UTC)),
        "batch_no": pa.repeat(batch_no, count),
        "correlation_key": pa.nulls(count, pa.large_string()),
    }
    return pa.table(columns)


def _origin(tuples: pa.Table, column: str) -> pa.Array:
    """Where tuples came from, int64, shape (n,); nulls where they came from no source."""
    if column not in tuples.column_names:
        return pa.nulls(tuples.num_rows, pa.int64())
    return plain_array(tuples[column]).cast(pa.int64())


def identified(
    tuples: pa.Table, rejected: Sequence[Held], event: EventColumns, key: Sequence[FactColumn]
) -> tuple[pa.Table, IdSketch]:
    """Note the event ids under which arrived tuples are to be stored, as facts or held. O(n).

    Args:
        tuples: those that were decoded, shape (n,), as those of a `Held`.
        rejected: those that were not.
        event: the pipeline's event columns.
        key: columns of the event id.

    Returns:
        the decoded tuples, with the hash codes of their event ids; and a sketch of the ids of all.
    """
    tuples = _with_stored_hashes(tuples, event, key)
    ids = IdSketch(hashes_of(tuples))
    ids.add(HeldRows.build(rejected, event, key, 0).hashes)
    return tuples, ids


def _with_stored_hashes(tuples: pa.Table, event: EventColumns, key: Sequence[FactColumn]) -> pa.Table:
    suspects = np.full(tuples.num_rows, may_be_too_long(tuples, key))
    for column in key:
        if tuples[column.source].null_count:
            suspects |= tuples[column.source].is_null().to_numpy()
    tuples = with_hashes(tuples, key)
    if suspects.any():
        held = Held(UNIDENTIFIED, "", None, tuples.filter(pa.array(suspects)))
        hashes = hashes_of(tuples)
        hashes[suspects] = _identities(held, payloads(held.tuples, event).records, key)[1]
        tuples = tuples.set_column(tuples.column_names.index(EVENT_HASH), EVENT_HASH, pa.array(hashes))
    return tuples


def _identities(held: Held, records: pa.Array, key: Sequence[FactColumn]) -> tuple[pa.Array, np.ndarray]:
    """Event id and hash code of each tuple; a digest of the record where its id can't be used."""
    event_ids, hashes = event_id_texts(held.tuples, key), hashes_of(with_hashes(held.tuples, key))
    unusable = pc.fill_null(pc.greater(pc.binary_length(event_ids), MOST_CHARACTERS), True)
    if not held.identified:
        unusable = pa.repeat(True, len(unusable))
    rows = np.flatnonzero(unusable.to_numpy(zero_copy_only=False))
    if rows.size:
        found = digests(records.take(pa.array(rows)))
        texts = pa.array([f'{{"sha256":"{digest}"}}' for digest in found], event_ids.type)
        event_ids = pc.replace_with_mask(event_ids, unusable, texts)
        hashes[rows] = digest_hashes(found)
    return event_ids, hashes


def _of_stream(stream: str, event_ids: pa.Array, hashes: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Ids and hash codes of a stream's tuples: others than those of another stream's, and of joined tuples."""
    prefix, nothing = pa.scalar(stream + STREAM_SEPARATOR, event_ids.type), pa.scalar("", event_ids.type)
    return pc.binary_join_element_wise(prefix, event_ids, nothing), hashes ^ hash_of_name(stream)


def hash_of_name(name: str) -> np.ndarray:
    """What hash codes of event ids are combined with, by exclusive or, as a stream's or a pipeline's; int64, (1,)."""
    characters = np.frombuffer(name.encode(), np.uint8)
    return hash_bytes(np.array([0, len(characters)]), characters)


def storable_reasons(reason: str | pa.StringArray, count: int) -> pa.Array:
    """Reasons as PostgreSQL can store them, whatever was quoted in them."""
    if isinstance(reason, str):
        return pa.repeat(storable(reason), count)
    if not text_faults(reason).any():
        return reason
    return pa.array([storable(text.as_buffer().to_pybytes()) for text in reason], pa.string())
