"""Debezium's envelope: what a change of a row was, and the row after it. Inserts are stream tuples; nothing else is."""

from __future__ import annotations

import msgspec
import pyarrow as pa

INSERTS = frozenset({"c", "r"})
"""Operations that are inserts: a row that was created, and one that was there when Debezium began."""


class _Envelope(msgspec.Struct):
    op: str | None = None
    after: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"null")  # where the schema is written beside it


_decoder = msgspec.json.Decoder(_Envelope)


def not_inserted(operation: str | None) -> str:
    """The reason of a change that is no insert."""
    if operation in INSERTS:
        return "no insert: the envelope holds no row"
    return f"no insert: Debezium's op is {operation!r}, and facts are made of inserts only: 'c' and 'r'"


def unwrapped(records: pa.Array) -> tuple[pa.Array, list[str | None]]:
    """The rows in envelopes of JSON, and the reasons of those that have none. O(bytes).

    Args:
        records: binary array without nulls, shape (n,).

    Returns:
        binary array, shape (n,), a JSON object each, `{}` where there is a reason; and the reasons, shape (n,).
    """
    rows: list[bytes] = []
    reasons: list[str | None] = []
    for record in records.to_pylist():
        row, reason = _row(record)
        rows.append(row)
        reasons.append(reason)
    return pa.array(rows, pa.binary()), reasons


def _row(record: bytes) -> tuple[bytes, str | None]:
    try:
        envelope = _decoder.decode(record)
        if bytes(envelope.payload) != b"null":
            envelope = _decoder.decode(envelope.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return b"{}", f"malformed: not Debezium's envelope: {error}"
    row = bytes(envelope.after)
    if envelope.op not in INSERTS or row == b"null":
        return b"{}", not_inserted(envelope.op)
    return row, None
