"""What one task reads of a source in one go: a slice of a range that the driver has planned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSlice:
    """Some records of a landed file.

    Attributes:
        range_no: number of the range within its batch; a range may be read in several slices.
        path: the file; bytes of its name that are not UTF-8 as Python's surrogate escapes.
        first: offset of its first byte, which begins a record.
        last: offset after its last byte, which ends a record. A compressed file and a Parquet file are one slice.
        size: bytes of the whole file when it was planned.
        modified_ns: when it was last changed, in ns since 1970, when it was planned; that is when its records arrived.
    """

    range_no: int
    path: str
    first: int
    last: int
    size: int
    modified_ns: int
