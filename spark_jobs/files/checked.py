"""Files whose damage is found: a header with checksums, then the content.

    0     header, 64 bytes    magic, format, version, size and checksum of the content, checksum of the header
    64    content

All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.errors import CacheDamagedError

HEADER_BYTES = 64
CACHE_ADVICE = (
    "The former version goes on being used; a rebuild of the cache makes a new one (DAG rebuild_cache, or "
    "`freshet rebuild-cache`)."
)
_FIELDS = struct.Struct("<8sIIQQI")  # magic, format, checksum of the content, version, size; checksum of the header


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Attributes:
        magic: the eight bytes that it begins with.
        format: number of the format that this program writes and reads.
        name: what it is, in words.
        advice: what goes on and what to do where one of them is damaged; whole sentences.
    """

    magic: bytes
    format: int
    name: str
    advice: str


def with_header(kind: FileKind, version: int, content: pa.Buffer) -> Iterator[Any]:
    """The parts of a file, bytes-like, to be written one after the other. O(bytes)."""
    fields = (kind.magic, kind.format, zlib.crc32(content), version, content.size)
    yield _FIELDS.pack(*fields, _header_checksum(*fields)).ljust(HEADER_BYTES, b"\0")
    yield content


def checked_content(kind: FileKind, version: int, path: Path) -> pa.Buffer:
    """The content of a file, which is what was written. O(bytes).

    Args:
        kind: what it must be.
        version: the version that its name says.
        path: the file.

    Raises:
        CacheDamagedError: it is something else, has another format, is damaged, or was written in part only.
        FileNotFoundError: there is no such file.
    """
    try:
        with pa.OSFile(str(path)) as file:
            read = file.read_buffer()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(kind, path, version, f"the disk fails ({error.strerror})") from error
    if read.size < HEADER_BYTES:
        raise damaged(
            kind, path, version, f"it has {read.size} bytes, too few for its header: it was written in part only"
        )
    head = read.slice(0, HEADER_BYTES).to_pybytes()
    *fields, header_checksum = _FIELDS.unpack_from(head)
    magic, format_, checksum, written, size = fields
    if magic != kind.magic:
        raise damaged(kind, path, version, f"it does not begin with {kind.magic.decode()}, so it is no {kind.name}")
    if format_ != kind.format:
        raise damaged(kind, path, version, f"it has format {format_}, and this program reads format {kind.format}")
    if _header_checksum(*fields) != header_checksum or head[_FIELDS.size :].strip(b"\0"):
        raise damaged(kind, path, version, "its header does not fit its checksum")
    if written != version:
        raise damaged(kind, path, version, f"it is version {written} under another one's name")
    content = read.slice(HEADER_BYTES)
    if content.size != size:
        raise damaged(kind, path, version, f"it has {content.size:,} bytes of content instead of {size:,}")
    if zlib.crc32(content) != checksum:
        raise damaged(kind, path, version, "its content does not fit its checksum")
    return content


def damaged(kind: FileKind, path: Path, version: int, what: str) -> CacheDamagedError:
    """The error for a damaged file."""
    return CacheDamagedError(f"{path} is refused: {what}. {kind.advice}", version)


def _header_checksum(*fields: Any) -> int:
    return zlib.crc32(_FIELDS.pack(*fields, 0))
