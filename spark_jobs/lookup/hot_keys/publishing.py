"""What the driver publishes to tasks: values that the workers of one host share, and until when they stand.

Spark hands each Python worker a copy of its own of a broadcast. A hot set would then take its memory
once per core. Here the first worker of a host writes the value to a file and all others map it, so
that its arrays stand in memory once, and a worker that starts anew has it at once.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle
import stat
import struct
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from spark_jobs.errors import PlatformError
from spark_jobs.lookup.changes.unnoticed import WholeRelation
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, OverlaidTuples

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.broadcast import Broadcast

# File: count of parts, length of each part (little-endian uint64), then the parts, each aligned so that
# mapped arrays are. The first part is the pickle, the others are the buffers that it refers to.
_ALIGNMENT = 64
_KEPT_SECONDS = 86_400.0  # a worker that starts later writes the file anew
_MOST_NAMES = 10  # of the folder for temporary files
# A worker lets go of what it has not used for so long when it maps something else: of pipelines that have ended.
_OPEN_SECONDS = 600.0


class _Opened(NamedTuple):
    version: int
    value: Any
    used_at: float


_opened: dict[str, _Opened] = {}


@dataclass(frozen=True)
class MappedBroadcast:
    """Handle of a published value; small, and pickled into the tasks that use the value.

    Attributes:
        name: names the value, unique among all jobs that may run on a host.
        version: a later version replaces the earlier ones of its name.
        content: the serialised value.
    """

    name: str
    version: int
    content: Broadcast[bytes]

    @classmethod
    def publish(cls, context: SparkContext, name: str, version: int, value: Any) -> MappedBroadcast:
        """Serialise a value and offer it to the executors. O(size of the value)."""
        return cls(name, version, context.broadcast(_serialise(value)))

    def value(self) -> Any:
        """The value, its arrays mapped read-only. O(1), but for the first worker of a host."""
        opened, now = _opened.get(self.name), time.monotonic()
        if opened is None or opened.version != self.version:
            path = _folder() / f"{self.name}.{self.version}"
            if not path.exists():
                self._write(path)
            value = _map(path)
            for name in [name for name, each in _opened.items() if now - each.used_at > _OPEN_SECONDS]:
                del _opened[name]
        else:
            value = opened.value
        _opened[self.name] = _Opened(self.version, value, now)
        return value

    def withdraw(self) -> None:
        """In the driver: free the value, here and on the executors. Workers that have it mapped may go on using it."""
        self.content.destroy(blocking=False)
        (_folder() / f"{self.name}.{self.version}").unlink(missing_ok=True)

    def _write(self, path: Path) -> None:
        written = path.with_name(f"{path.name}.{os.getpid()}.part")  # ends in no number, as versions do
        written.write_bytes(self.content.value)
        # The worker would keep its copy of the broadcast for as long as it lives; the file serves from now on.
        vars(self.content).pop("_value", None)
        written.replace(path)
        _remove_outdated(path.parent)
        # The driver removes former versions on its own host only. Who has one mapped may go on using it.
        for former in path.parent.glob(f"{self.name}.*"):
            number = former.name.rpartition(".")[2]
            if number.isdecimal() and int(number) < self.version:
                former.unlink(missing_ok=True)


class BroadcastSeries:
    """Publishes values under one name, each in the place of the former: a worker maps the last one that it has used.

    Args:
        context: Spark.
        purpose: what they are, for the name of their files.
    """

    def __init__(self, context: SparkContext, purpose: str) -> None:
        self._spark = context
        self._name = unique_name(purpose)
        self._versions = itertools.count()

    def publish(self, value: Any) -> MappedBroadcast:
        """The next value. Who has it retires it; the former one is left to the batches that use it still."""
        return MappedBroadcast.publish(self._spark, self._name, next(self._versions), value)


@dataclass(frozen=True)
class FrontStagePlan:
    """What the front stage of one lookup does in one batch.

    Attributes:
        hot: the published HotTuples; None before there are any.
        overlay: the published Overlay of what has changed since; None where nothing has.
        most_offers: how many tuples of R a task offers to the hot set at most, the most frequent ones.
        count_hits: whether tasks count the hits of every hot tuple; done in some batches only.
        whole: where all of R is hot: by what it is known that a key is not in R. None: each miss has to be looked up.
    """

    hot: MappedBroadcast | None
    most_offers: int
    count_hits: bool
    whole: WholeRelation | None = None
    overlay: MappedBroadcast | None = None

    def tuples(self) -> HotTuples | OverlaidTuples | None:
        """The hot tuples, mapped; None before there are any."""
        if self.hot is None:
            return None
        base: HotTuples = self.hot.value()
        return base if self.overlay is None else OverlaidTuples(base, self.overlay.value())


class Leases:
    """Which published values the batches under way were planned with: until the last of them has ended, they stand.

    Several batches may be under way at once, and values are replaced from other threads than plan batches. So a value
    is leased under the lock under which it would be replaced, and retired once it has been. Safe in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leased: dict[int, list[MappedBroadcast]] = {}
        self._retired: list[MappedBroadcast] = []

    def take(self, batch_no: int, value: MappedBroadcast) -> None:
        """A batch is planned with this value."""
        with self._lock:
            self._leased.setdefault(batch_no, []).append(value)

    def retire(self, value: MappedBroadcast) -> None:
        """No batch will be planned with this value any more: withdraw it, now or when the last one has ended."""
        with self._lock:
            self._retired.append(value)
        self._withdraw_unused()

    def release(self, batch_no: int) -> None:
        """A batch has ended, or was never begun."""
        with self._lock:
            self._leased.pop(batch_no, None)
        self._withdraw_unused()

    def release_all(self) -> None:
        """No batch is under way any more."""
        with self._lock:
            self._leased.clear()
        self._withdraw_unused()

    def _withdraw_unused(self) -> None:
        with self._lock:
            used = [value for leased in self._leased.values() for value in leased]
            unused = [value for value in self._retired if value not in used]
            self._retired = [value for value in self._retired if value in used]
        for value in unused:
            value.withdraw()


def unique_name(purpose: str) -> str:
    """A name for a value that no other job on any host has."""
    return f"{purpose}-{uuid4().hex}"


def _remove_outdated(folder: Path) -> None:
    """Remove what jobs left that did not end by themselves. A mapped file stays readable without its name."""
    longest_use = time.time() - _KEPT_SECONDS
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another worker was quicker
            if path.stat().st_mtime < longest_use:
                path.unlink()


def _folder() -> Path:
    """The user's own among those for temporary files: the same for all processes of the host.

    What lies here is unpickled: no other user may write into it. Who has taken the first name to keep us out leaves the
    next ones; a folder that is ours nobody else can take away.
    """
    first = Path(tempfile.gettempdir()) / f"freshet-{os.getuid()}"
    for folder in (first, *(first.with_name(f"{first.name}-{number}") for number in range(1, _MOST_NAMES))):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return folder
    raise PlatformError(
        f"{first}, and the {_MOST_NAMES - 1} names after it, belong to other users, or may be read by them. Have "
        "whoever runs this machine remove them, or point TMPDIR at a folder of the user that runs Spark."
    )


def _serialise(value: Any) -> bytes:
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts: list[Any] = [head, *(buffer.raw() for buffer in buffers)]
    aligned = [struct.pack(f"<{len(parts) + 1}Q", len(parts), *(len(part) for part in parts))]
    for part in parts:
        aligned += [bytes(-len(aligned[-1]) % _ALIGNMENT), part]
    return b"".join(aligned)


def _map(path: Path) -> Any:
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    (count,) = struct.unpack_from("<Q", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 8)
    position = 8 * (count + 1)
    parts = []
    for length in lengths:
        position += -position % _ALIGNMENT
        parts.append(view[position : position + length])
        position += length
    return pickle.loads(parts[0], buffers=parts[1:])
