"""A landed file as it was planned, and the bytes that a compressed one holds."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast

import pyarrow as pa

from spark_jobs.errors import SourceRangeChangedError, SourceRangeGoneError
from spark_jobs.source.file_names import modified_ns_of
from spark_jobs.source.slices import FileSlice

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


@contextmanager
def planned_file(piece: FileSlice) -> Iterator[BinaryIO]:
    """The file of a slice, unbuffered; it is the one that was planned, at the beginning and at the end.

    Raises:
        SourceRangeGoneError: it is missing.
        SourceRangeChangedError: its size or time of change is another.
        OSError: the machine can't read it.
    """
    try:
        with open(piece.path, "rb", buffering=0) as file:
            _check(piece, os.fstat(file.fileno()))
            yield cast(BinaryIO, file)
            _check(piece, os.stat(piece.path))
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
    return piece.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _check(piece: FileSlice, found: os.stat_result) -> None:
    if (found.st_size, modified_ns_of(found)) != (piece.size, piece.modified_ns):
        raise SourceRangeChangedError(
            f"{shown_path(piece)} was changed after it was listed. It had {piece.size} bytes, last changed at "
            f"{piece.modified_ns} ns since 1970; now {found.st_size}, at {found.st_mtime_ns}."
        )
