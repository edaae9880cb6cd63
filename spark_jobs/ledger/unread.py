"""What has landed in a source and is in no batch yet, as somebody who looked has seen it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class PartitionLag:
    """What is unread of a partition of a topic, when it was looked at.

    Attributes:
        partition: its name; with several streams, that of its stream with a `/` before.
        position: offset up to which batches have taken it.
        end: offset of the record that comes next.
        since: since when the first unread record is known to be there, ISO 8601; None without any.
        trouble: why it can't be read, as the broker says; None where it can.
    """

    partition: str
    position: int
    end: int
    since: str | None
    trouble: str | None = None


@dataclass(frozen=True)
class Unread:
    """What has landed in a source and was in no batch when it was looked at.

    Attributes:
        files: how many; one of which a batch has taken a part counts, too.
        bytes: of them, but for such parts; and, about, of the records of topics.
        landed_at: when the oldest of it landed; None without any.
        looked_at: when that was seen, by `time.monotonic` of this process.
        unread_partitions: of topics, how many have such records.
        partitions: of topics, those that are furthest behind first; not all of very many.
    """

    files: int
    bytes: int
    landed_at: datetime | None
    looked_at: float
    unread_partitions: int = 0
    partitions: Sequence[PartitionLag] = ()

    @property
    def age(self) -> timedelta:
        """Time since the look."""
        return timedelta(seconds=max(time.monotonic() - self.looked_at, 0.0))
