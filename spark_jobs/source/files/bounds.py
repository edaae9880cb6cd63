"""Bounds on what one packed file may become: how many bytes, and how many rejected records.

Of lines that land as they are, a sender sends each byte. Of a .gz, a .zst or a Parquet file it sends some KB, and they
may become millions of records that are held one by one while all that landed later waits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.byte_sizes import format_bytes, parse_bytes
from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import POSITION
from spark_jobs.errors import UnreadableFileError
from spark_jobs.ledger.poison import Poison
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.planned_file import FileSlice, shown_path
from spark_jobs.source.sparing import spans_at

# Ordinary records are packed up to thirty to one.
_UNPACKED_RATIO = 100
_ALWAYS_UNPACKED = 256 << 20
_MOST_REJECTED = 100_000
_GLANCED_AT = 16  # of so many records that are read again one is decoded the first time
_RETRY = "then have it read again: freshet source PIPELINE --retry FILE"


@dataclass(frozen=True)
class FileBounds:
    """What one packed file may become.

    Attributes:
        file: its name, for messages.
        most_unpacked: bytes.
        unpacked_by: what says so.
        poison: what of it is not decoded, and is not counted as rejected.
        most_rejected: records that may be rejected in any case; more may if they are not more than half.
    """

    file: str
    most_unpacked: int
    unpacked_by: str
    poison: Poison
    most_rejected: int

    @classmethod
    def of(cls, piece: FileSlice, source: Source) -> FileBounds:
        """The bounds of a file, by the source's options or the defaults."""
        given = source.options.get("most_unpacked")
        most = max(_ALWAYS_UNPACKED, _UNPACKED_RATIO * piece.size) if given is None else parse_bytes(given)
        usual = f"{_UNPACKED_RATIO} times its size, at least {format_bytes(_ALWAYS_UNPACKED)}"
        by = usual if given is None else f"source.options.most_unpacked: {given}"
        rejected = int(source.options.get("most_rejected", _MOST_REJECTED))
        return cls(shown_path(piece), most, by, piece.poison, rejected)

    def reading(self, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """`read`, which raises UnreadableFileError once it has given more bytes than are allowed."""
        unpacked = 0

        def bounded(most: int) -> bytes:
            nonlocal unpacked
            content = read(most)
            unpacked += len(content)
            self.check_unpacked(unpacked)
            return content

        return bounded

    def tally(self, source: Source, *, sizes: bool) -> Tally:
        """A new count of the file's records.

        Args:
            source: of the file.
            sizes: whether their bytes are to be counted, too; of lines `reading` counts them.
        """
        return Tally(self, source, sizes)

    def check_unpacked(self, unpacked: float) -> None:
        """Raise UnreadableFileError if these are more bytes than are allowed."""
        if unpacked > self.most_unpacked:
            raise UnreadableFileError(
                f"{self.file} is set aside: it unpacks to more than {format_bytes(self.most_unpacked)} "
                f"({self.unpacked_by}). If it is what it should be, allow more as source.options.most_unpacked "
                f"({format_bytes(4 * self.most_unpacked)}, say), {_RETRY}"
            )


class Tally:
    """Counts the records of a file from its beginning, and those that are rejected.

    Args:
        bounds: of the file.
        source: of the file.
        sizes: whether to count bytes, too.
    """

    def __init__(self, bounds: FileBounds, source: Source, sizes: bool) -> None:
        self._bounds = bounds
        self._source = source
        self._sizes = sizes
        self._draw = random.SystemRandom()  # a sender that foresees the sample would land sound records there alone
        self._records = 0
        self._rejected = self._unpacked = 0.0
        self._example = ""

    def sample(self, count: int) -> tuple[int, int]:
        """Some of so many records to glance at: the first one's number, and how many."""
        some = max(1, count // _GLANCED_AT)
        return self._draw.randint(0, count - some), some

    def add(self, arrivals: Arrivals, count: int) -> None:
        """Count records.

        Args:
            arrivals: they, or a sample of them.
            count: how many they are.

        Raises:
            UnreadableFileError: the file is beyond its bounds.
        """
        weight = count / arrivals.records
        self._records += count
        self._rejected += weight * self._not_loaded(arrivals)
        if self._rejected > self._bounds.most_rejected and 2 * self._rejected > self._records:
            raise UnreadableFileError(
                f"{self._bounds.file} is set aside: {int(self._rejected):,} of its first {self._records:,} records "
                f"can't be loaded, the first one because it is {self._example}. Allowed: "
                f"{self._bounds.most_rejected:,}, or any number up to half of the records. If the schema is wrong, "
                "correct it; if they are to be held one by one, write a larger number as source.options.most_rejected; "
                f"{_RETRY}"
            )
        if self._sizes:
            self._unpacked += weight * arrivals.nbytes
            self._bounds.check_unpacked(self._unpacked)

    def _not_loaded(self, arrivals: Arrivals) -> int:
        lacking = _without_event_id(arrivals, self._source)
        if not self._example:
            reasons = [group.reason for group in arrivals.rejected if group.tuples.num_rows]
            if reasons:
                self._example = reasons[0] if isinstance(reasons[0], str) else reasons[0][0].as_py()
            elif lacking:
                self._example = f"without event id: {', '.join(self._source.event_id)} is null"
        return lacking + sum(self._decoded(group.tuples[POSITION].to_numpy()) for group in arrivals.rejected)

    def _decoded(self, positions: NDArray[np.int64]) -> int:
        return int(np.count_nonzero(spans_at(self._bounds.poison, positions) < 0))


def _without_event_id(arrivals: Arrivals, source: Source) -> int:
    """How many of the tuples will be rejected for their event id."""
    columns = [arrivals.tuples[column] for column in source.event_id if arrivals.tuples[column].null_count]
    if not columns:
        return 0
    missing = columns[0].is_null()
    for column in columns[1:]:
        missing = pc.or_(missing, column.is_null())
    return pc.sum(missing).as_py()
