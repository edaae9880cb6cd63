"""The versions of a front stage that batches use: the newest one, and the one that the running batch began with."""

from __future__ import annotations

import threading
from typing import NamedTuple

from pyspark import SparkContext

from spark_jobs.joins.semi_stream.front_stage import HotSet
from spark_jobs.stages.batch_context import HotTuples
from spark_jobs.stages.mapped_broadcast import MappedBroadcast, unique_name


class Published(NamedTuple):
    """A version that tasks can use, and its keys."""

    broadcast: MappedBroadcast
    hot_set: HotSet


class PublishedVersions:
    """Publishes hot tuples from any thread; a version is withdrawn as soon as no batch can use it any more.

    R may change often while no events come: whatever has been published since the last batch, only two versions stand.

    Args:
        context: Spark.
        purpose: what they are, for the name of their files.
    """

    def __init__(self, context: SparkContext, purpose: str) -> None:
        self._spark = context
        self._name = unique_name(purpose)
        self._lock = threading.Lock()
        self._newest: Published | None = None
        self._in_use: Published | None = None

    @property
    def in_use(self) -> Published | None:
        """What the batch that began last uses."""
        return self._in_use

    def publish(self, version: int, value: HotTuples) -> None:
        """Offer a version to batches, unless a newer one has been published meanwhile. O(size), without the lock."""
        published = Published(MappedBroadcast.publish(self._spark, self._name, version, value), value.keys)
        with self._lock:
            if self._newest is None or self._newest.broadcast.version < version:
                outdated, self._newest = self._newest, published
            else:
                outdated = published
            kept = outdated is self._in_use
        if not kept:
            _withdraw(outdated)

    def use_newest(self) -> Published | None:
        """A batch begins, and the one before it has ended: the newest version is in use, the former one withdrawn."""
        with self._lock:
            former, self._in_use = self._in_use, self._newest
            kept = former is self._newest
        if not kept:
            _withdraw(former)
        return self._in_use

    def close(self) -> None:
        """Withdraw all."""
        with self._lock:
            newest, in_use = self._newest, self._in_use
            self._newest = self._in_use = None
        _withdraw(newest)
        if in_use is not newest:
            _withdraw(in_use)


def _withdraw(version: Published | None) -> None:
    if version is not None:
        version.broadcast.withdraw()
