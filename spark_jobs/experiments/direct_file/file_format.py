"""What stands where in a direct file of R.

    0         header, one block           magic, version, sizes, checksums of the tuples, the index and itself
    4,096     tuples, in key order        int64 key, then the payload; row_count * tuple_bytes, without gaps
    aligned   sparse index                int64 keys of tuples 0, index_rows, 2 * index_rows, ...

All numbers are little-endian; the tuples and the index begin at multiples of 4,096 bytes, and so does the file's end.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.errors import DirectFileError

FORMAT_VERSION = 1
BLOCK_BYTES = 4096
KEY_BYTES = 8
MOST_TUPLE_BYTES = 1 << 20

_MAGIC = b"FRESHETR"
_FIELDS = struct.Struct("<8sIIQIIII")  # magic, version, tuple_bytes, row_count, index_rows, three checksums


@dataclass(frozen=True)
class DirectFileHeader:
    """What is known of a direct file before any tuple of it is read.

    Attributes:
        tuple_bytes: size of a tuple with its key (v_R of the papers).
        row_count: tuples.
        index_rows: tuples from one key of the sparse index to the next.
        tuples_checksum: CRC-32 of all tuples.
        index_checksum: CRC-32 of the index.
    """

    tuple_bytes: int
    row_count: int
    index_rows: int
    tuples_checksum: int = 0
    index_checksum: int = 0

    @property
    def tuples_offset(self) -> int:
        """Where the first tuple begins in the file, in bytes."""
        return BLOCK_BYTES

    @property
    def index_offset(self) -> int:
        """Where the sparse index begins."""
        return self.tuples_offset + whole_blocks(self.row_count * self.tuple_bytes)

    @property
    def index_entries(self) -> int:
        """Keys in the sparse index."""
        return -(-self.row_count // self.index_rows)

    @property
    def file_bytes(self) -> int:
        """Size of the whole file."""
        return self.index_offset + whole_blocks(self.index_entries * KEY_BYTES)

    def pack(self) -> bytes:
        """The header as it stands in the file, one block."""
        fields = self._fields(0)
        return self._fields(zlib.crc32(fields)).ljust(BLOCK_BYTES, b"\0")

    def _fields(self, checksum: int) -> bytes:
        return _FIELDS.pack(
            _MAGIC,
            FORMAT_VERSION,
            self.tuple_bytes,
            self.row_count,
            self.index_rows,
            self.tuples_checksum,
            self.index_checksum,
            checksum,
        )

    def with_checksums(self, tuples: int, index: int) -> DirectFileHeader:
        """The same header with the checksums of what was written."""
        return replace(self, tuples_checksum=tuples, index_checksum=index)


def unpack_header(block: bytes, path: str) -> DirectFileHeader:
    """The header of a direct file.

    Args:
        block: the file's first block.
        path: the file, for the error.

    Raises:
        DirectFileError: the file is no direct file, has another version, or its header is damaged.
    """
    if len(block) < _FIELDS.size or not block.startswith(_MAGIC):
        raise DirectFileError(f"{path} is no direct file: it does not begin with {_MAGIC.decode()}. Write it again.")
    _, version, tuple_bytes, row_count, index_rows, tuples, index, checksum = _FIELDS.unpack_from(block)
    if version != FORMAT_VERSION:
        raise DirectFileError(
            f"{path} has version {version} of the format of direct files; this program reads version {FORMAT_VERSION}. "
            "Write the direct file again."
        )
    header = DirectFileHeader(tuple_bytes, row_count, index_rows, tuples, index)
    if zlib.crc32(header._fields(0)) != checksum:
        raise DirectFileError(f"The header of {path} does not fit its checksum: the file is damaged. Write it again.")
    return header


def tuple_type(tuple_bytes: int) -> np.dtype:
    """A tuple as numpy sees it: `key`, int64, and `payload`, uint8 (tuple_bytes - 8,); packed.

    Raises:
        DirectFileError: the size holds no key, or is beyond all reason.
    """
    if not KEY_BYTES <= tuple_bytes <= MOST_TUPLE_BYTES:
        raise DirectFileError(
            f"A tuple of {tuple_bytes:,} bytes can't be stored: tuples have {KEY_BYTES} bytes at least, the size "
            f"of their key, and {MOST_TUPLE_BYTES:,} at most."
        )
    return np.dtype([("key", "<i8"), ("payload", "u1", (tuple_bytes - KEY_BYTES,))])


def whole_blocks(size: int) -> int:
    """The size, rounded up to whole blocks, in bytes."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
