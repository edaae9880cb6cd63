"""A slice of a landed file, and the bytes of the file as it was planned."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, BinaryIO, cast

import pyarrow as pa

from spark_jobs.errors import SourceRangeChangedError, SourceRangeGoneError
from spark_jobs.ledger.poison import Poison, PoisonSpan
from spark_jobs.shown_text import shown_text
from spark_jobs.source.files.names import compression_of, modified_ns_of
from spark_jobs.source.files.regular_files import open_regular
from spark_jobs.source.record_lines import BLOCK_BYTES, line_end_at_or_after
from spark_jobs.source.slices import FAR, SourceSlice

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


@dataclass(frozen=True)
class FileSlice(SourceSlice):
    """Some records of a landed file.

    Attributes:
        range_no: number of the range within its batch; a range may be read in several slices.
        path: the file; bytes of its name that are not UTF-8 as Python's surrogate escapes.
        first: offset of its first byte, which begins a record.
        last: offset after its last byte, which ends a record. A compressed file and a Parquet file are one slice.
        size: bytes of the whole file when it was planned.
        modified_ns: when it was last changed, in ns since 1970, when it was planned; that is when its records arrived.
        poison: what of it is not decoded.
    """

    range_no: int
    path: str
    first: int
    last: int
    size: int
    modified_ns: int
    poison: Poison = ()

    @property
    def is_loaded_in_part(self) -> bool:
        """No: a file is sound, or none of it is loaded."""
        return False

    def bounds(self) -> tuple[int, int]:
        """The positions between which it has all its records; of a packed file, by unpacking it. O(bytes) then.

        Raises:
            OSError, EOFError, zlib.error, pyarrow.ArrowException: the file can't be unpacked.
        """
        compression = compression_of(self.path)
        if compression is None:
            return self.first, self.last
        size = 0
        with open_regular(self.path) as file:
            content = unpacked(file, compression)
            while part := content.read(BLOCK_BYTES):
                size += len(part)
        return 0, size

    def window(self, first: int, last: int) -> FileSlice:
        """The part of it whose records lie at these positions. Not of Parquet files.

        What lies outside of it in a packed file is unpacked, and not decoded.
        """
        if compression_of(self.path) is None:
            first, last = (line_end_at_or_after(self.path, position) for position in (first, last))
            return replace(self, first=first, last=min(last, self.last))
        outside = (PoisonSpan(0, first, ""), PoisonSpan(last, FAR, ""))
        return replace(self, poison=(*self.poison, *outside))

    @property
    def has_one_record(self) -> bool:
        """Whether it has no more; never of a packed file."""
        return compression_of(self.path) is None and line_end_at_or_after(self.path, self.first + 1) >= self.last


@contextmanager
def planned_file(piece: FileSlice) -> Iterator[BinaryIO]:
    """The file of a slice, unbuffered; checked to be the one that was planned, before and after it is read.

    Raises:
        SourceRangeGoneError: it is missing.
        SourceRangeChangedError: its size or time of change is another.
        OSError: the machine can't read it.
    """
    try:
        with open_regular(piece.path) as file:
            _check(piece, os.fstat(file.fileno()))
            yield file
            _check(piece, os.stat(piece.path, follow_symlinks=False))
    except OSError as error:
        if error.errno in _GONE:
            raise SourceRangeGoneError(f"{shown_path(piece)} is not there any more: {error.strerror}.") from error
        raise


def unpacked(file: IO[bytes], compression: str) -> IO[bytes]:
    """The content of a compressed file as a file; `damage_told` tells what its errors mean."""
    if compression == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(file, "r"), compression))


def shown_path(piece: FileSlice) -> str:
    """The slice's file as messages name it."""
    return shown_text(piece.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def _check(piece: FileSlice, found: os.stat_result) -> None:
    if (found.st_size, modified_ns_of(found)) != (piece.size, piece.modified_ns):
        raise SourceRangeChangedError(
            f"{shown_path(piece)} was changed after it was listed. It had {piece.size} bytes, last changed at "
            f"{piece.modified_ns} ns since 1970; now {found.st_size}, at {found.st_mtime_ns}."
        )
