"""A slice of a landed file, and the bytes of the file as it was planned."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

import pyarrow as pa

from spark_jobs.errors import SourceRangeChangedError, SourceRangeGoneError
from spark_jobs.ledger.poison import Poison
from spark_jobs.shown_text import shown_text
from spark_jobs.source.files.names import modified_ns_of
from spark_jobs.source.files.regular_files import open_regular

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


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
    def is_of_topic(self) -> bool:
        """Whether they are records of a topic."""
        return False


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
