"""Join keys as texts that PostgreSQL reads, in literals of their types and of arrays of these."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import INFINITE_FUTURE, INFINITE_PAST, KeyKind, KeyValues
from spark_jobs.columns.uuid_text import format_uuids

# PostgreSQL takes a date as its Julian day, whatever the year: no calendar arithmetic, no years B.C.
_JULIAN_DAY_OF_1970 = 2_440_588
_TEXT_SEPARATOR = "\0"


def array_texts(keys: KeyColumns) -> list[str]:
    """For each key column an array of its values, shape (n,), as text. O(bytes)."""
    return [_array_text(values, kind) for values, kind in zip(keys.values(), keys.kinds, strict=True)]


def value_texts(keys: KeyColumns, index: int) -> list[str]:
    """The values of one key as texts, one for each key column."""
    one = keys.take(np.array([index]))
    return [_joined(values, kind) for values, kind in zip(one.values(), keys.kinds, strict=True)]


def _array_text(values: KeyValues, kind: KeyKind) -> str:
    joined = _joined(values, kind)
    if not kind.is_text or not len(values):
        return "{" + joined + "}"
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace(_TEXT_SEPARATOR, '","') + '"}'


def _joined(values: KeyValues, kind: KeyKind) -> str:
    """The texts of the values, with commas between; with zero bytes, which keys have none of, for text."""
    if kind is KeyKind.UUID:
        return ",".join(format_uuids(values))
    if kind is KeyKind.DATE:
        return ",".join(map(_date_text, values.tolist()))
    if kind is KeyKind.INTEGER:
        return ",".join(map(str, values.tolist()))
    together = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.binary_join(together, _TEXT_SEPARATOR.encode())[0].as_py().decode()


def _date_text(day: int) -> str:
    if day == INFINITE_FUTURE:
        return "infinity"
    return "-infinity" if day == INFINITE_PAST else f"J{day + _JULIAN_DAY_OF_1970}"
