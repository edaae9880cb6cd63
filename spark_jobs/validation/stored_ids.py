"""Event ids that are stored, as facts, held, or held until retention deleted them: read out, or looked up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.copy_decoding.column_types import ColumnType, column_type
from spark_jobs.columns.event_id import event_hashes, parse_event_ids
from spark_jobs.definition.ddl import StreamType
from spark_jobs.loading.payload import digest_hashes
from spark_jobs.lookup.relation.copy_pieces import copy_pieces
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.validation.fact_columns import FactColumns

_NUMERIC_HEADER = 4
# Stream type -> the type in which its values leave PostgreSQL, whatever the type of their column is there.
_SENT_AS = {
    "bigint": "int8", "int": "int8", "smallint": "int8", "tinyint": "int8", "boolean": "bool", "string": "text",
    "date": "date", "timestamp": "timestamptz",
}  # fmt: skip
_HELD = """
    SELECT event_id, event_hash FROM freshet.held_tuple WHERE pipeline = {pipeline} AND {numbers}
    UNION ALL
    SELECT event_id, event_hash FROM freshet.pruned_tuple WHERE pipeline = {pipeline} AND {numbers}
"""
_DIGEST = '{"sha256":"'


def sketch_stored(
    cursor: extensions.cursor,
    pipeline: str,
    columns: FactColumns,
    fact_numbers: sql.Composable,
    held_numbers: sql.Composable,
) -> IdSketch:
    """The sketch of stored event ids, by one pass over the facts and one over the held tuples, in bounded memory.

    Args:
        cursor: in a transaction that sees one state of them.
        pipeline: its name.
        columns: of the fact table.
        fact_numbers: condition for the facts that count.
        held_numbers: the same for held tuples.
    """
    ids = IdSketch()
    casts = [_sent_as(kind) for kind in columns.id_types]
    facts = sql.SQL("SELECT {} FROM {} WHERE {}").format(
        sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Identifier(column.name), sql.SQL(sent))
            for column, (sent, _) in zip(columns.key, casts, strict=True)
        ),
        columns.table,
        fact_numbers,
    )

    def take_facts(arrays: list[pa.Array]) -> None:
        values = [array.cast(column.source_type) for array, column in zip(arrays, columns.key, strict=True)]
        ids.add(event_hashes(pa.table(values, [column.source for column in columns.key]), columns.key))

    copy_pieces(cursor, facts, [kind for _, kind in casts], take_facts)
    held = sql.SQL(_HELD).format(pipeline=sql.Literal(pipeline), numbers=held_numbers)
    types = [_sent("text"), _sent("int8")]
    copy_pieces(cursor, held, types, lambda arrays: ids.add(_held_hashes(arrays[0], arrays[1], columns)))
    return ids


def stored_nowhere(
    cursor: extensions.cursor, pipeline: str, columns: FactColumns, event_ids: Sequence[str]
) -> list[str]:
    """Those of the event ids, in their canonical texts, that are neither facts nor held, nor ever were held.

    Two index probes each.
    """
    cursor.execute(
        "SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id = ANY (%(ids)s) UNION "
        "SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s AND event_id = ANY (%(ids)s)",
        {"pipeline": pipeline, "ids": list(event_ids)},
    )
    held = {event_id for (event_id,) in cursor.fetchall()}
    left = [event_id for event_id in event_ids if event_id not in held]
    readable = [event_id for event_id in left if not event_id.startswith("{")]
    values, numbers = parse_event_ids(readable, columns.key)
    names = [sql.Identifier(f"value_{number}") for number in range(len(columns.key))]
    query = sql.SQL(
        "SELECT number FROM unnest({arrays}) WITH ORDINALITY AS given ({names}, number), "
        "LATERAL (SELECT FROM {table} AS f WHERE {same} LIMIT 1) AS f"
    ).format(
        arrays=sql.SQL(", ").join(sql.SQL(f"%s::{columns.types[column.name]}[]") for column in columns.key),
        names=sql.SQL(", ").join(names),
        table=columns.table,
        same=sql.SQL(" AND ").join(
            sql.SQL("f.{} = given.{}").format(sql.Identifier(column.name), name)
            for column, name in zip(columns.key, names, strict=True)
        ),
    )
    cursor.execute(query, [values[column.source].to_pylist() for column in columns.key])
    facts = {readable[numbers[number - 1]] for (number,) in cursor.fetchall()}
    return [event_id for event_id in left if event_id not in facts]


def _sent_as(kind: StreamType) -> tuple[str, ColumnType]:
    """In SQL the type as which an event id's column leaves PostgreSQL, and how it is decoded."""
    if kind.name == "decimal":
        modifier = (kind.precision << 16 | kind.scale) + _NUMERIC_HEADER
        return f"numeric({kind.precision}, {kind.scale})", _sent("numeric", modifier)
    return _SENT_AS[kind.name], _sent(_SENT_AS[kind.name])


def _sent(name: str, modifier: int = -1) -> ColumnType:
    kind = column_type(name, modifier)
    assert kind is not None
    return kind


def _held_hashes(event_ids: pa.Array, stored: pa.Array, columns: FactColumns) -> NDArray[np.int64]:
    """Hash codes of held event ids, made anew of their texts; as stored where a text is no id of the pipeline's."""
    hashes = stored.to_numpy().copy()
    texts = event_ids.to_pylist()
    digests = [number for number, text in enumerate(texts) if text.startswith(_DIGEST)]
    hashes[digests] = digest_hashes([texts[number][len(_DIGEST) :] for number in digests])
    known = [number for number, text in enumerate(texts) if text.startswith("[")]
    if known:
        values, numbers = parse_event_ids([texts[number] for number in known], columns.key)
        hashes[np.array(known)[numbers]] = event_hashes(values, columns.key)
    return hashes
