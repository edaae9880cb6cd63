"""Reads and writes of whole blocks, past the operating system's cache where that can be."""

from __future__ import annotations

import os
import weakref

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import DirectFileError
from spark_jobs.experiments.direct_file.file_format import BLOCK_BYTES, whole_blocks

Bytes = NDArray[np.uint8]

_BUFFER_BYTES = 4 << 20


def aligned_buffer(size: int) -> Bytes:
    """Memory that begins at a multiple of a block, as O_DIRECT wants it; uint8, shape (size,), not cleared.

    Takes up to a block more than its size.
    """
    memory = np.empty(size + BLOCK_BYTES, np.uint8)
    start = -memory.__array_interface__["data"][0] % BLOCK_BYTES
    return memory[start : start + size]


class DirectFile:
    """A file to be read at any place, opened with O_DIRECT.

    A file system may refuse that. Then reads go through the operating system's cache, which is told after
    each of them to drop what was read: the next reader finds the disk again, but the copy costs a little. A file
    system in memory (tmpfs) may take O_DIRECT and read from memory all the same.

    Args:
        path: the file.
        direct: True insists on O_DIRECT; False does without; None uses it where the file system lets it.

    Attributes:
        direct: whether reads go past the cache.

    Raises:
        DirectFileError: the file can't be opened, or O_DIRECT was insisted on and is refused.
    """

    def __init__(self, path: str, direct: bool | None = None) -> None:
        self._path = path
        descriptor = None if direct is False else self._open_direct(refusal_is_error=direct is True)
        self.direct = descriptor is not None
        self._descriptor = self._open(0) if descriptor is None else descriptor
        # A process opens a direct file anew for each page size: its descriptors end with their last reader.
        self._closing = weakref.finalize(self, os.close, self._descriptor)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> Bytes:
        """Bytes from `offset` on, uint8, shape (size,): a view of a buffer of their own, of whole blocks."""
        start = offset // BLOCK_BYTES * BLOCK_BYTES
        buffer = aligned_buffer(whole_blocks(offset + size - start))
        return self.read_into(buffer, offset, size)

    def read_into(self, buffer: Bytes, offset: int, size: int) -> Bytes:
        """The same, in a buffer that is there.

        Args:
            buffer: from `aligned_buffer`, with room for all blocks that the bytes lie in.
            offset: where the bytes begin in the file.
            size: how many.

        Raises:
            DirectFileError: the file ends before, or the disk fails.
        """
        start = offset // BLOCK_BYTES * BLOCK_BYTES
        span = whole_blocks(offset + size - start)
        try:
            count = os.preadv(self._descriptor, [buffer[:span].data], start)
            while count < offset - start + size:  # Linux reads at most 2 GiB at once, and may be interrupted
                more = os.preadv(self._descriptor, [buffer[count:span].data], start + count)
                if not more:
                    raise DirectFileError(f"{self._path} ends within its tuples: it is truncated. Write it again.")
                count += more
        except OSError as error:
            raise DirectFileError(f"{self._path} could not be read at byte {start:,}: {error.strerror}.") from error
        if not self.direct:
            os.posix_fadvise(self._descriptor, start, span, os.POSIX_FADV_DONTNEED)
        return buffer[offset - start : offset - start + size]

    def close(self) -> None:
        """Close the file; it can't be read any more."""
        self._closing()

    def _open_direct(self, *, refusal_is_error: bool) -> int | None:
        """A descriptor that has been read from with O_DIRECT: some file systems refuse no sooner."""
        try:
            descriptor = self._open(os.O_DIRECT)
        except DirectFileError:
            if refusal_is_error or not os.access(self._path, os.R_OK):
                raise
            return None
        try:
            os.preadv(descriptor, [aligned_buffer(BLOCK_BYTES).data], 0)
        except OSError as error:
            os.close(descriptor)
            if refusal_is_error:
                raise DirectFileError(
                    f"The file system of {self._path} refuses O_DIRECT ({error.strerror}). Put the direct file on a "
                    "local disk, or open it with direct=None to read through the operating system's cache."
                ) from error
            return None
        return descriptor

    def _open(self, flags: int) -> int:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | flags)
        except OSError as error:
            with_flag = " with O_DIRECT" if flags else ""
            raise DirectFileError(f"{self._path} can't be opened{with_flag}: {error.strerror}.") from error


class BlockOutput:
    """A new file. With O_DIRECT it displaces nothing from memory, and writing is up to five times as fast.

    Args:
        path: the file; it must not exist.

    Raises:
        OSError: it can't be made. The other methods raise OSError where the disk fails or is full.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags | os.O_DIRECT, 0o644)
        except OSError:
            # A file system that refuses O_DIRECT may have made the file before it said so.
            self._descriptor = os.open(path, flags & ~os.O_EXCL | os.O_TRUNC, 0o644)
        self._buffer = aligned_buffer(_BUFFER_BYTES)
        self._filled = 0
        self._written = 0

    def write(self, data: Bytes) -> None:
        """Append bytes, uint8, shape (n,)."""
        while len(data):
            part = data[: _BUFFER_BYTES - self._filled]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            data = data[len(part) :]
            if self._filled == _BUFFER_BYTES:
                self._flush()

    def pad(self) -> None:
        """Append zeros up to the next multiple of a block."""
        self.write(np.zeros(whole_blocks(self._filled) - self._filled, np.uint8))

    def finish(self, first_block: bytes) -> None:
        """Write what is left, and other bytes over the first block; wait until all is on the disk."""
        self.pad()
        self._flush()
        self._buffer[:BLOCK_BYTES] = np.frombuffer(first_block, np.uint8)
        self._put(self._buffer[:BLOCK_BYTES], 0)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _flush(self) -> None:
        self._put(self._buffer[: self._filled], self._written)
        self._written += self._filled
        self._filled = 0

    def _put(self, blocks: Bytes, offset: int) -> None:
        while len(blocks):
            count = os.pwrite(self._descriptor, blocks.data, offset)
            blocks, offset = blocks[count:], offset + count
