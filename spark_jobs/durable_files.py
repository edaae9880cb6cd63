"""Files that crashes and other processes may come upon: whole on the disk, checked when read, versioned, locked.

A checked file has a header with checksums, then the content:

    0     header, 64 bytes    magic, format, version, size and checksum of the content, checksum of the header
    64    content

All numbers are little-endian.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from spark_jobs.errors import CacheDamagedError

WRITING = ".writing"
"""End of the name of a file that is being written, or that a killed writer has left."""

HEADER_BYTES = 64
CACHE_ADVICE = (
    "The former version stays in use; a rebuild of the cache makes a new one (DAG rebuild_cache, or "
    "`freshet rebuild-cache`)."
)
_FIELDS = struct.Struct("<8sIIQQI")  # magic, format, checksum of the content, version, size; checksum of the header

Version = TypeVar("Version")


def write_durably(path: Path, parts: Iterable[Any]) -> None:
    """Write a file with mode 0600: under a temporary name, brought to the disk, then renamed.

    A reader finds the former file or the whole new one, even after a loss of power. One writer per path at a time.

    Args:
        path: the file; one that is there is replaced.
        parts: what it holds, bytes-like objects, one after the other.

    Raises:
        OSError: the disk is full or fails; nothing is left then, and the former file is as it was.
    """
    write_all_durably({path: parts})


def write_all_durably(files: Mapping[Path, Iterable[Any]]) -> None:
    """Write several files of one folder, at least one, as `write_durably` does; they get their names in this order.

    Cheaper than one by one: while the disk takes the first, it takes most of the others.
    """
    written = {path: path.with_name(path.name + WRITING) for path in files}
    try:
        with contextlib.ExitStack() as stack:
            opened = []
            for path, parts in files.items():
                written[path].unlink(missing_ok=True)
                created = os.open(written[path], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                file = stack.enter_context(open(created, "wb"))
                for part in parts:
                    file.write(part)
                file.flush()
                opened.append(file)
            for file in opened:
                os.fsync(file.fileno())
        for path in files:
            written.pop(path).rename(path)
    finally:
        for left in written.values():
            left.unlink(missing_ok=True)
    sync_folder(next(iter(files)).parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def checked_content(kind: FileKind, version: int, path: Path, *, mapped: bool = False) -> pa.Buffer:
    """The content of a file, which is what was written. O(bytes).

    Args:
        kind: what it must be.
        version: the version that its name says.
        path: the file.
        mapped: whether it is mapped into memory, where it stays even when the file is deleted, instead of read.

    Raises:
        CacheDamagedError: it is something else, has another format, is damaged, or was written in part only.
        FileNotFoundError: there is no such file.
    """
    try:
        with pa.memory_map(str(path)) if mapped else pa.OSFile(str(path)) as file:
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


def newest_version(numbers: Callable[[], list[int]], read: Callable[[int], Version], after: int) -> Version | None:
    """The version with the highest number, if that is above `after`.

    Args:
        numbers: lists the versions there are, ascending.
        read: reads and verifies one of them.
        after: the highest number that is known already.

    Raises:
        CacheDamagedError: that version is refused; its number is the error's `version`.
    """
    while newer := [number for number in numbers() if number > after]:
        try:
            return read(newer[-1])
        except FileNotFoundError:
            pass  # newer ones came, and it went, since they were listed
    return None


def newest_sound_version(
    numbers: Callable[[], list[int]], read: Callable[[int], Version], after: int
) -> tuple[Version | None, list[CacheDamagedError]]:
    """The newest version above `after` that is not damaged, and why those above it are refused. Arguments as above."""
    refused: dict[int, CacheDamagedError] = {}
    while newer := [number for number in numbers() if number > after and number not in refused]:
        try:
            return read(newer[-1]), list(refused.values())
        except CacheDamagedError as error:
            refused[newer[-1]] = error
        except FileNotFoundError:
            pass
    return None, list(refused.values())


@contextlib.contextmanager
def exclusive_lock(file: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock for the time of the block; the file is made where it does not exist.

    Raises:
        BlockingIOError: another holder has the lock, and `wait` is false.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)  # whoever can open it can hold the lock
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
