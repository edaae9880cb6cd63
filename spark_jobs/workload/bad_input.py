"""Bad input of every kind that a stream can bring, for demonstrations and tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa

Row = dict[str, Any]

DEFECT = "_defect"
"""Column that names the defect an event is to be written with; null for most."""

DUPLICATE = "duplicate_id"
"""The defect of an event that is sent once more, unchanged."""

_UNKNOWN = 10**12  # added to a key, leads beyond those of any TPC-H scale
_TOO_LARGE = 10**15  # for decimal(15,2), which has 13 digits before its point
_AS_IT_IS = ("utf-8", "surrogateescape")
_TOO_LONG = "x" * 100  # for all text columns of the fact tables


def encode_json(row: Row) -> bytes:
    """An event as a line of JSON, without the line's end."""
    if any(isinstance(value, bytes) for value in row.values()):  # texts that may be no valid UTF-8
        told = {name: value.decode(*_AS_IT_IS) if isinstance(value, bytes) else value for name, value in row.items()}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode(*_AS_IT_IS)
    return json.dumps(row, separators=(",", ":")).encode()


def _malformed_json(row: Row) -> bytes:
    line = encode_json(row)
    return line[: len(line) // 2]


def _invalid_utf8(row: Row) -> bytes:
    return encode_json(row | {"o_clerk": "Clerk#?"}).replace(b"Clerk#?", b"Clerk#\xff\xfe")


def _json_with(**values: Any) -> Callable[[Row], bytes]:
    return lambda row: encode_json(row | values)


ORDER_DEFECTS: dict[str, Callable[[Row], bytes]] = {
    "malformed_json": _malformed_json,
    "wrong_type": _json_with(o_custkey="nobody"),
    "numeric_overflow": _json_with(o_totalprice=_TOO_LARGE),
    "not_a_number": _json_with(o_totalprice=float("nan")),
    "null_event_id": _json_with(o_orderkey=None),
    "null_key": _json_with(o_custkey=None),
    "nul_in_text": _json_with(o_clerk="Clerk#\0"),
    "invalid_utf8": _invalid_utf8,
    "over_long_text": _json_with(o_clerk=_TOO_LONG),
    "unknown_customer": lambda row: encode_json(row | {"o_custkey": row["o_custkey"] + _UNKNOWN}),
}
"""Name of a defect -> an order (JSON) with this defect. Its event id is used up by the bad event."""

LINE_DEFECTS: dict[str, Callable[[Row], Row]] = {
    "null_event_id": lambda row: row | {"l_linenumber": None},
    "null_key": lambda row: row | {"l_partkey": None},
    "nul_in_text": lambda row: row | {"l_shipmode": b"AIR\0"},
    "invalid_utf8": lambda row: row | {"l_shipmode": b"AIR\xff\xfe"},
    "over_long_text": lambda row: row | {"l_shipmode": _TOO_LONG.encode()},
    "unknown_part": lambda row: row | {"l_partkey": row["l_partkey"] + _UNKNOWN},
    "unknown_supplier": lambda row: row | {"l_suppkey": row["l_suppkey"] + _UNKNOWN},
}
"""Name of a defect -> an order line (Parquet, so always of the right types) with this defect."""


def choose_defects(defects: Collection[str], count: int, share: float, random: np.random.Generator) -> pa.Array:
    """Choose which of `count` events get which defect (or DUPLICATE); strings, null for an event without."""
    names = pa.array([*defects, DUPLICATE])
    is_fine = random.random(count) >= share
    return names.take(pa.array(random.integers(0, len(names), count), mask=is_fine))
