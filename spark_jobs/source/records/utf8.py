"""Finds the records that are not UTF-8."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.source.records.decoded import MalformedRecordError, shown
from spark_jobs.warehouse.copy_encoding.characters import text_faults

# Ends what is kept of a record that is too long. It can't be UTF-8: what was cut off is never taken for a record.
_CUT = b"\xff[cut: "


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


def cut_record(beginning: bytes, length: int, digest: str) -> bytes:
    """What stands for a record that is too long: its beginning, how many bytes it has, and their digest."""
    return beginning + _CUT + f"{length} bytes, SHA-256 {digest}]".encode()


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
