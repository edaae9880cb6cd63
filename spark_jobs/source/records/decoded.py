"""What decoding gives: a tuple for each record, or the reason why it has none. All records are UTF-8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.copy_encoding.characters import text_faults
from spark_jobs.columns.copy_encoding.column_encoder import shown
from spark_jobs.definition.ddl import StreamType

_EXAMPLES = {
    "bigint": " (a whole number of 64 bits)",
    "int": " (a whole number of 32 bits)",
    "smallint": " (a whole number, -32768 to 32767)",
    "tinyint": " (a whole number, -128 to 127)",
    "boolean": " (true or false)",
    "date": " (as 2024-12-31)",
    "timestamp": " (as 2024-12-31T23:59:59.123456Z)",
    "binary": " (base64)",
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_RECORD = 16 << 20
"""Bytes of a record, or of a value that stands in no record, beyond which it is malformed."""

KEPT_OF_TOO_LONG = 64 << 10
"""Bytes that are kept of such a one: its beginning."""

# Ends what is kept of a record that is too long. It can't be UTF-8: what was cut off is never taken for a record.
_CUT = b"\xff[cut: "


class Decoded(NamedTuple):
    """The tuples of n records.

    Attributes:
        tuples: shape (n,), the source's columns; all null where the record is malformed.
        reasons: string array, shape (n,): what is wrong with the record; null where it is sound.
    """

    tuples: pa.Table
    reasons: pa.Array


class MalformedRecordError(ValueError):
    """A record is not what its format or its columns demand; the message says what is wrong."""


def arrow_schema(columns: Mapping[str, StreamType]) -> pa.Schema:
    """The arrow types of a source's columns."""
    return pa.schema([(name, kind.arrow()) for name, kind in columns.items()])


def all_sound(tuples: pa.Table) -> Decoded:
    """Tuples of records without fault."""
    return Decoded(tuples, pa.nulls(tuples.num_rows, pa.string()))


def merged(parts: Sequence[tuple[NDArray[np.int64], Decoded]]) -> Decoded:
    """What was decoded in parts, in the order of the records. O(n log n).

    Args:
        parts: numbers of the records, shape (m,), and what became of them.
    """
    filled = [(numbers, decoded) for numbers, decoded in parts if len(numbers)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0][1]
    order = pa.array(np.argsort(np.concatenate([numbers for numbers, _ in filled]), kind="stable"))
    tuples = pa.concat_tables([decoded.tuples for _, decoded in filled])
    reasons = pa.concat_arrays([decoded.reasons for _, decoded in filled])
    return Decoded(tuples.take(order).combine_chunks(), reasons.take(order))


def complaint(column: str, value: str, kind: StreamType) -> str:
    """The reason of a value that its column does not take.

    Args:
        column: its name.
        value: as `shown` or as the format writes it.
        kind: what the column takes.
    """
    return f"malformed: {column}: {value} is no {kind}{_EXAMPLES.get(kind.name, '')}"


def not_utf8(records: pa.Array) -> NDArray[np.bool_] | None:
    """Which records are not valid UTF-8; bool, shape (n,), None if all are. O(bytes), fast where all are.

    Args:
        records: binary array without nulls, shape (n,).
    """
    texts = records.view(pa.large_string() if pa.types.is_large_binary(records.type) else pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        faults = text_faults(texts) != 0  # or a NUL, which may hide a later fault
        faults[faults] = [not _is_utf8(record) for record in records.filter(pa.array(faults)).to_pylist()]
        return faults
    return None


def told_length(length: int, digest: str) -> str:
    """How many bytes something has that is too long, and their digest."""
    return f"{length} bytes, SHA-256 {digest}"


def cut_record(beginning: bytes, told: str) -> bytes:
    """What stands for a record that is too long: its beginning, and what is told of all of it (`told_length`)."""
    return beginning + _CUT + f"{told}]".encode()


def as_text(record: bytes) -> str:
    """The record as text.

    Raises:
        MalformedRecordError: it is not UTF-8, or too long.
    """
    try:
        return record.decode()
    except UnicodeDecodeError as error:
        _, cut, length = record.rpartition(_CUT)
        if cut:
            raise MalformedRecordError(f"malformed: too long: {length.decode('ascii', 'replace')[:-1]}") from None
        text = f"malformed: not UTF-8: {shown(record[error.start : error.start + 16])} at byte {error.start}"
        raise MalformedRecordError(text) from None


def _is_utf8(record: bytes) -> bool:
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_lines(records: pa.Array) -> pa.Buffer:
    """Records as the lines of one block."""
    nothing, line_end = pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary())
    return pc.binary_join_element_wise(pc.cast(records, pa.large_binary()), nothing, line_end).buffers()[2]


def holding(records: pa.Array, sequence: bytes) -> NDArray[np.bool_]:
    """Which records hold these bytes; bool, shape (n,)."""
    return pc.match_substring(records, sequence).to_numpy(zero_copy_only=False)


def all_malformed(count: int, reason: str, columns: Mapping[str, StreamType]) -> Decoded:
    """Records none of which can be decoded, for one reason."""
    schema = arrow_schema(columns)
    tuples = pa.Table.from_arrays([pa.nulls(count, kind) for kind in schema.types], schema=schema)
    return Decoded(tuples, pa.array([reason] * count, pa.string()))
