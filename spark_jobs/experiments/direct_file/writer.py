"""Streams tuples in key order into a new direct file, which then takes the old one's place at once."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import DirectFileError
from spark_jobs.experiments.direct_file.blocks import BlockOutput
from spark_jobs.experiments.direct_file.file_format import BLOCK_BYTES, KEY_BYTES, DirectFileHeader, tuple_type

Int64Array = NDArray[np.int64]
Payload = NDArray[np.uint8]

# A lookup reads what lies between two keys of the index: with the papers' tuples of 120 bytes, two blocks at most.
# Pages of any multiple of it are found in the index. 100 million tuples have an index of 40 MB.
DEFAULT_INDEX_ROWS = 20


class DirectFileWriter:
    """Writes one direct file, for use in a `with` block: whole and at once, or not at all.

    The file is written under a temporary name in the same folder, brought to the disk, and renamed: the path
    leads to the old direct file or to the new one, and a reader that has the old one open goes on reading it.

    Args:
        path: the direct file; one that is there is replaced at the end.
        tuple_bytes: size of a tuple with its key of 8 bytes.
        expected_rows: about how many tuples will come; the disk must have room for them.
        index_rows: tuples from one key of the sparse index to the next.

    Raises:
        DirectFileError: there is not enough room, or the folder can't be written.
    """

    def __init__(
        self, path: str | Path, tuple_bytes: int, expected_rows: int, index_rows: int = DEFAULT_INDEX_ROWS
    ) -> None:
        if index_rows < 1:
            raise DirectFileError(f"An index of every {index_rows}th key can't be made: index_rows is 1 at least.")
        self._path = Path(path)
        self._type = tuple_type(tuple_bytes)
        self._index_rows = index_rows
        self._check_room(DirectFileHeader(tuple_bytes, expected_rows, index_rows).file_bytes)
        self._row_count = 0
        self._last_key: int | None = None
        self._index: list[Int64Array] = []
        self._checksum = 0
        self._temporary = self._temporary_name()
        try:
            self._output = BlockOutput(self._temporary)
        except OSError as error:
            raise self._failed(error) from error
        self._output.write(np.zeros(BLOCK_BYTES, np.uint8))

    def append(self, keys: Int64Array, payload: Payload) -> None:
        """Write tuples whose keys follow those that came before. O(n), hundreds of MB per second.

        Args:
            keys: int64, shape (n,), ascending, none twice.
            payload: uint8, shape (n, tuple_bytes - 8).

        Raises:
            DirectFileError: the keys are not ascending, the payload has another shape, or the disk fails.
        """
        keys = np.asarray(keys, np.int64)
        self._check(keys, payload)
        if not len(keys):
            return
        tuples = np.empty(len(keys), self._type)
        tuples["key"] = keys
        tuples["payload"] = payload
        data = tuples.view(np.uint8).reshape(-1)
        self._checksum = zlib.crc32(data.data, self._checksum)
        try:
            self._output.write(data)
        except OSError as error:
            raise self._failed(error) from error
        self._index.append(keys[-self._row_count % self._index_rows :: self._index_rows].copy())
        self._row_count += len(keys)
        self._last_key = int(keys[-1])

    def __enter__(self) -> DirectFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._put_in_place()
        finally:
            self._output.close()
            with contextlib.suppress(FileNotFoundError):  # renamed
                os.unlink(self._temporary)

    def _put_in_place(self) -> None:
        index = np.concatenate([np.empty(0, np.int64), *self._index]).view(np.uint8)
        header = DirectFileHeader(self._type.itemsize, self._row_count, self._index_rows)
        header = header.with_checksums(self._checksum, zlib.crc32(index.data))
        try:
            self._output.pad()
            self._output.write(index)
            self._output.finish(header.pack())
            os.rename(self._temporary, self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # the new name is on the disk, too
            finally:
                os.close(folder)
        except OSError as error:
            raise self._failed(error) from error

    def _check(self, keys: Int64Array, payload: Payload) -> None:
        expected = (len(keys), self._type.itemsize - KEY_BYTES)
        if payload.shape != expected or payload.dtype != np.uint8:
            raise DirectFileError(
                f"{len(keys)} tuples of {self._type.itemsize} bytes need a payload of uint8 in shape {expected}; "
                f"it is {payload.dtype} in shape {payload.shape}."
            )
        behind = np.flatnonzero(keys[1:] <= keys[:-1])
        if self._last_key is not None and len(keys) and keys[0] <= self._last_key:
            before, key = self._last_key, keys[0]
        elif behind.size:
            before, key = keys[behind[0]], keys[behind[0] + 1]
        else:
            return
        raise DirectFileError(
            f"Key {key} comes after key {before}: a direct file takes the tuples in ascending order of distinct keys. "
            "Sort them, and put the tuples of one key into one."
        )

    def _check_room(self, needed: int) -> None:
        try:
            free = shutil.disk_usage(self._path.parent).free
        except OSError as error:
            raise self._failed(error) from error
        if needed > free:
            raise DirectFileError(
                f"The direct file {self._path} needs {needed / 1e9:,.1f} GB, but {self._path.parent} has only "
                f"{free / 1e9:,.1f} GB left. Make room, or choose another folder."
            )

    def _temporary_name(self) -> str:
        """A name of its own for every writer, should two write the same direct file."""
        return str(self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}"))

    def _failed(self, error: OSError) -> DirectFileError:
        return DirectFileError(f"The direct file {self._path} could not be written: {error.strerror}.")


def write_direct_file(
    path: str | Path,
    chunks: Iterable[tuple[Int64Array, Payload]],
    tuple_bytes: int,
    expected_rows: int,
    index_rows: int = DEFAULT_INDEX_ROWS,
) -> None:
    """Write a direct file of chunks of tuples in key order.

    Args:
        path: the direct file; one that is there is replaced at the end.
        chunks: keys, int64 (n,), and payload, uint8 (n, tuple_bytes - 8), of some tuples each.
        tuple_bytes: size of a tuple with its key of 8 bytes.
        expected_rows: about how many tuples there are.
        index_rows: tuples from one key of the sparse index to the next.

    Raises:
        DirectFileError: see DirectFileWriter; the old direct file is untouched then.
    """
    with DirectFileWriter(path, tuple_bytes, expected_rows, index_rows) as writer:
        for keys, payload in chunks:
            writer.append(keys, payload)
