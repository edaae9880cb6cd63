"""The driver's loop: asks the source what is new, opens a batch, runs it on Spark, closes it; again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psycopg2
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.fencing import require_epoch
from spark_jobs.driver.batch_run import BatchRun
from spark_jobs.driver.heartbeat import Wanted
from spark_jobs.driver.retry_policy import RetryPolicy
from spark_jobs.errors import FreshetError, WarehouseUnavailableError, WriterFencedError
from spark_jobs.ledger import batch_ledger, files_not_loaded, source_ranges
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.landed_source import LandedSource, RemovesLoaded
from spark_jobs.stages.failure_kind import FailureKind, failure_kind
from spark_jobs.task_errors import kind_of, lost_its_process, told_by
from spark_jobs.warehouse.connection_pool import Borrower

_log = logging.getLogger(__name__)

# Where nothing comes the source is looked at less often: after this part of the time that nothing has come, within
# bounds. A stream that waits for an event a minute must cost next to nothing, as its driver may have fifty of them.
_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.05, 0.25
_IDLE_SHARE = 0.05
_LISTENING_SECONDS = 0.2
_TIDY_SECONDS = 2.0
# To find the files that may go takes the longer the more are kept: after that, so many times as long without.
_REST = 20
# A process may be killed from outside, or lack memory that others had. Twice in a row it may be the batch's doing.
_SUSPICIOUS = 2
_CHANGED = "it was changed after it had been read: files have to appear whole, and to stay as they are"


class StreamLoop:
    """Loads batch after batch until the stream is drained.

    The ledger is its checkpoint: a batch is in the warehouse, with the exact ranges that it reads, before anything of
    it runs. After anything that fails the loop begins again from what the ledger says, as a new driver does: it goes on
    with the batch that is open, then takes what the ledger does not know.

    Args:
        pipeline: its name.
        epoch: the driver's epoch.
        session: the driver's connection to the warehouse; not used by others while a batch is opened or closed.
        wanted: tells what the warehouse wants of the driver now.
        source: what is new.
        loaded_files: remove what is loaded, each from its folder; where there is none it stays.
        batches: loads a batch.
    """

    def __init__(
        self,
        pipeline: str,
        epoch: int,
        session: Borrower,
        wanted: Callable[[], Wanted],
        source: LandedSource,
        loaded_files: Sequence[RemovesLoaded],
        batches: BatchRun,
    ) -> None:
        self._pipeline = pipeline
        self._epoch = epoch
        self._session = session
        self._wanted = wanted
        self._source = source
        self._loaded_files = loaded_files
        self._batches = batches
        self._retry_policy = RetryPolicy()
        self._lost_processes = 0  # how often in a row the batch has ended those that read it
        self._blocked = False
        self._draining = False
        self._tidied_at = 0.0
        self._loaded_at = time.monotonic()
        self._remove_at = 0.0

    def run(self, *, once: bool) -> None:
        """Load until drained, or with `once` until all that has landed is loaded.

        Raises:
            WriterFencedError: a newer driver has taken the pipeline over.
            FreshetError: loading failed again and again.
        """
        self._draining = once
        try:
            while not self._loaded_all():
                pass
        finally:
            self._batches.await_learning()

    def _loaded_all(self) -> bool:
        """Load until drained; False if something failed, and is to be tried again."""
        try:
            self._load_all()
        except Exception as error:
            if issubclass(kind_of(error), WriterFencedError):
                raise WriterFencedError(told_by(error)) from error
            self._recover(error)
            return False
        return True

    def _load_all(self) -> None:
        if self._blocked:
            self._batches.take_mended_tables(self._session.connection())
        fact = self._batches.fact
        for batch in batch_ledger.take_open_batches(self._session.connection(), self._pipeline, self._epoch, fact):
            self._load(batch, replayed=True)
        self._source.resume(partial(source_ranges.taken_units, self._session.connection(), self._pipeline))
        self._look()
        while True:
            ranges = self._source.take(self._batches.most_bytes)
            if ranges:
                self._load_new(ranges)
            elif self._batches.is_due(self._session.connection, draining=self._draining):
                self._load(self._batches.open(self._session.connection(), []), replayed=False)
            elif self._draining:
                return
            else:
                self._unblock()
                self._session.rest()
                idle = time.monotonic() - self._loaded_at
                time.sleep(min(max(_LOOK_SECONDS, _IDLE_SHARE * idle), _LONGEST_LOOK_SECONDS))
            if not self._draining:
                self._heed()
                self._look()  # once more when it is asked to drain: what has landed by then is loaded

    def _load_new(self, ranges: list[SourceRange]) -> None:
        connection = self._session.connection()
        with connection, connection.cursor() as cursor:
            taken = source_ranges.taken_among(cursor, self._pipeline, ranges)
        new = [each for number, each in enumerate(ranges) if number not in taken]
        if new:
            batch = self._batches.open(connection, new)
            # What it has taken and what it has left are told together: a file must not be seen in both, or in none.
            drivers.heartbeat(connection, self._pipeline, self._epoch, self._source.unread)
            self._load(batch, replayed=False)

    def _load(self, batch: batch_ledger.OpenBatch, *, replayed: bool) -> None:
        if self._lost_processes == _SUSPICIOUS:  # the batch that failed is the oldest one that is open
            sound = self._batches.without_poison(self._session.connection(), batch)
            if sound is not None:
                batch = sound
                self._lost_processes = 0
                self._retry_policy.forget()
        self._batches.load(self._session.connection(), batch, replayed=replayed, draining=self._draining)
        self._loaded_at = time.monotonic()
        self._retry_policy.forget()
        self._lost_processes = 0
        self._unblock()

    def _look(self) -> None:
        self._source.look()
        if time.monotonic() - self._tidied_at >= _TIDY_SECONDS:
            self._tidied_at = time.monotonic()
            self._tidy(self._session.connection())

    def _tidy(self, connection: extensions.connection) -> None:
        """Do what is to be done with files besides loading them: read again, set aside, remove."""
        if units := files_not_loaded.units_to_retry(connection, self._pipeline):
            self._source.forget(units)
            self._source.look()
        if changed := self._source.changed():
            for each in changed:
                _log.warning("%s: %s is set aside: %s", self._pipeline, each.unit, _CHANGED)
            with connection, connection.cursor() as cursor:
                require_epoch(cursor, self._pipeline, self._epoch)
                source_ranges.note_ranges(cursor, self._pipeline, changed, "set aside", reason=_CHANGED)
        if time.monotonic() >= self._remove_at:
            began = time.monotonic()
            for files in self._loaded_files:
                self._remove(connection, files)
            ended = time.monotonic()
            self._remove_at = ended + _REST * (ended - began)

    def _remove(self, connection: extensions.connection, files: RemovesLoaded) -> None:
        with connection, connection.cursor() as cursor:
            require_epoch(cursor, self._pipeline, self._epoch)
        if loaded := source_ranges.removable_units(connection, self._pipeline, files.loaded_before, files.prefix):
            removed = files.remove(loaded)
            self._source.forget(removed)
            source_ranges.note_removed(connection, self._pipeline, removed)

    def _heed(self) -> None:
        """Do what the warehouse wants.

        Raises:
            WriterFencedError: it wants this driver to end.
        """
        wanted = self._wanted()
        if wanted == "fenced":
            connection = self._session.connection()
            with connection, connection.cursor() as cursor:
                require_epoch(cursor, self._pipeline, self._epoch)
            raise WriterFencedError(
                f"The driver of epoch {self._epoch} of pipeline {self._pipeline} was taken for dead: it had fallen "
                "silent. The run that watches the stream starts another one."
            )
        if wanted == "draining" and not self._draining:
            _log.info("%s: draining", self._pipeline)
            self._draining = True

    def _recover(self, error: Exception) -> None:
        """Wait until what failed is to be tried again.

        Raises:
            WriterFencedError: a newer driver has taken over meanwhile.
            FreshetError: it is given up.
        """
        _log.error("%s: %s", self._pipeline, error)
        self._session.drop()
        found = failure_kind(error)
        self._lost_processes = self._lost_processes + 1 if lost_its_process(error) else 0
        if found is FailureKind.BLOCKED:
            self._block(told_by(error))
            self._session.rest()
        pause = self._retry_policy.pause(found, time.monotonic(), ends=self._draining)
        if pause is None:
            raise FreshetError(
                f"Pipeline {self._pipeline} could not be loaded, again and again. The last error: {told_by(error)}. "
                f"What has landed is kept, and the next driver goes on with it."
            ) from error
        until, was_draining = time.monotonic() + pause, self._draining
        while time.monotonic() < until and self._draining == was_draining:  # asked to drain: perhaps all is well by now
            self._heed()
            time.sleep(_LISTENING_SECONDS)

    def _block(self, reason: str) -> None:
        """Show that the stream can't go on. A server that takes no writes at all can't be told, and is seen so."""
        self._blocked = True
        with suppress(psycopg2.Error, WarehouseUnavailableError):
            drivers.block(self._session.connection(), self._pipeline, self._epoch, reason)

    def _unblock(self) -> None:
        """Show that the stream goes on. What made it so is committed: an error here must not have it done again."""
        if self._blocked:
            with suppress(psycopg2.Error, WarehouseUnavailableError):
                drivers.unblock(self._session.connection(), self._pipeline, self._epoch)
                self._blocked = False
