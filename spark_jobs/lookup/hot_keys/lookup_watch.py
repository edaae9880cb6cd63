"""The watch over one lookup: keeps its hot set as new as R, and its files as new as its hot set."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from psycopg2 import extensions

from spark_jobs.definition import Lookup
from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.lookup.changes.triggers import WatchOutcome
from spark_jobs.lookup.changes.unnoticed import Changes
from spark_jobs.lookup.hot_keys.cache_table import CacheRow
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles, HotSetVersion
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.noticing import Noticing
from spark_jobs.lookup.hot_keys.whole_loading import WholeLoading
from spark_jobs.lookup.local_copy.copy_files import CopyInUse
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.reading_connection import ReadingConnection
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec

_log = logging.getLogger(__name__)

LEARNED_SECONDS = 30.0


class LookupWatch:
    """What the relation watch does for one lookup.

    Args:
        lookup: the lookup.
        spec: its relation.
        position: its number in the pipeline, from 0.
        hot_set: its hot set.
        files: the versions of that on disk.
        reading: connection that hot tuples are read again through.
        memory_bytes: memory of its hot tuples.
        writer: writes files and reads R whole, so that no change has to wait for that to be noticed.
        copy: the local copy of R that its batches read; None where they read R live.

    Attributes:
        unnoted: why triggers do not note all changes of R; None where they do.
    """

    def __init__(
        self,
        lookup: Lookup,
        spec: RelationSpec,
        position: int,
        hot_set: LearnedHotSet,
        files: HotSetFiles,
        reading: ReadingConnection,
        memory_bytes: int,
        writer: Executor,
        copy: CopyInUse | None,
    ) -> None:
        self.lookup = lookup
        self.unnoted: str | None = None
        self._spec = spec
        self._position = position
        self._hot_set = hot_set
        self._files = files
        self._writer = writer
        self._copy = copy
        self._noticing = Noticing(lookup, LiveRelation(reading.url, spec, connection=reading), hot_set)
        # A copy of R spares PostgreSQL from being read: it is not scanned, either.
        scanned = memory_bytes > 0 and lookup.read == "live"
        self._whole = WholeLoading(lookup, spec, memory_bytes, reading.url, writer) if scanned else None
        self._files_wait = False  # whether the newest version is taken over if all of R can't be
        self._held: HotSetVersion | None = None  # the version that was taken over or written last
        self._rebuilt_at: datetime | None = None  # when the rebuilt version was made that was taken over last
        self._refused: tuple[str, datetime] | None = None  # why the newest version on disk is not used, since when
        self._looked_at = 0  # the newest version that was taken over or refused
        self._writing: Future[None] | None = None
        self._written_at = time.monotonic()

    def begin(self, connection: extensions.connection, outcome: WatchOutcome) -> None:
        """Before the first batch: begin to read all of R if it fits; else to use the newest sound version, if there is
        one, whose tuples are all read again.

        Args:
            connection: to the warehouse.
            outcome: whether triggers note the relation's changes.
        """
        self.watch(connection, outcome)
        tables = self._noticing.noting
        if tables is not None and self._whole is not None and self._whole.begin(tables):
            self._files_wait = True
        else:
            self._take_over_newest(connection)

    def watch(self, connection: extensions.connection, outcome: WatchOutcome) -> None:
        """Triggers, or the tables themselves, may be others than the last time."""
        self.unnoted = outcome.refusal
        self._noticing.watch(connection, outcome)

    @property
    def reads_whole(self) -> bool:
        """Whether all of R is being read, to be hot as soon as it is there."""
        return self._whole is not None and self._whole.reading

    def notice(self, connection: extensions.connection) -> None:
        """Bring changes of R into the hot set; or all of it, where it fits and has been read."""
        self._noticing.notice(connection)
        if self._whole is None or self._hot_set.holds_all:
            return
        tables = self._noticing.noting
        whole = None if tables is None else self._whole.result(tables, connection)
        if whole is not None and not self._hold_all(whole.rows, self._noticing.since(whole.noticed, connection)):
            self._whole.put_off()
        if self._files_wait and not self._hot_set.holds_all and (tables is None or not self._whole.reading):
            self._take_over_newest(connection)

    def stop(self) -> None:
        """Read all of R no further, if that is under way."""
        if self._whole is not None:
            self._whole.stop()

    def take_over_rebuilt(self, connection: extensions.connection) -> None:
        """Take over a rebuilt version if there is a new one. One that is damaged is refused; the former goes on.

        Args:
            connection: to the warehouse.
        """
        try:
            version = self._files.newest(after=self._looked_at, origin="rebuilt")
        except CacheDamagedError as error:
            self._refuse(error)
            return
        if version is not None:
            self._take_over(version, connection)

    def write_learned(self, *, at_end: bool = False) -> None:
        """Write the hot set down, if it is time and the last version has been written.

        Args:
            at_end: whether the driver ends: it is time then.
        """
        if self._files_wait:
            return  # what few batches have found must not take the place of the newest version
        busy = self._writing is not None and not self._writing.done()
        if not at_end and (busy or time.monotonic() - self._written_at < LEARNED_SECONDS):
            return
        self._written_at = time.monotonic()
        noticed = self._noticing.noticed if self._noticing.watched == "triggers" else None
        version = self._hot_set.export(noticed)
        if version is not None:
            self._writing = self._writer.submit(self._write, version)

    def news(self) -> tuple[object, ...]:
        """What there is to be reported, but for how far R was found unchanged. Equal where nothing new is."""
        return self._noticing.changed, replace(self.row(), noticed=None, noticed_ago=None)

    def row(self) -> CacheRow:
        """What is to be reported about it."""
        held, refused = self._held, self._refused
        copied = None if self._copy is None else self._copy.manifest
        if refused is None and self._copy is not None:
            refused = self._copy.refused
        return CacheRow(
            lookup=self._position,
            relation=self.lookup.relation,
            version=0 if held is None else held.version,
            origin=None if held is None else held.origin,
            hot_tuples=self._hot_set.hot_tuples,
            built_at=None if held is None else held.built_at,
            rebuilt_at=self._rebuilt_at,
            snapshot_version=None if copied is None else copied.version,
            snapshot_at=None if copied is None else copied.built_at,
            watched=self._noticing.watched,
            noticed=self._noticing.noticed,
            noticed_ago=timedelta(seconds=time.monotonic() - self._noticing.noticed_at),
            notice_changes=self.lookup.notice_changes,
            refused=None if refused is None else refused[0],
            refused_at=None if refused is None else refused[1],
        )

    def _write(self, version: HotSetVersion) -> None:
        try:
            self._held = replace(version, version=self._files.write(version))
        except FreshetError as error:
            _log.warning("%s: %s", self._spec.relation, error)

    def _take_over_newest(self, connection: extensions.connection) -> None:
        version, refused = self._files.newest_sound()
        for error in refused:
            self._refuse(error)
        if version is not None:
            self._take_over(replace(version, noticed=None), connection)
        self._files_wait = False

    def _take_over(self, version: HotSetVersion, connection: extensions.connection) -> None:
        rows = version.rows
        if rows.keys.kinds != self._spec.key_kinds or rows.columns.schema != self._spec.rows_schema:
            what = f"Version {version.version} of the hot tuples of {self._spec.relation} is refused: its columns are "
            self._refuse(CacheDamagedError(what + "not those of the lookup. Rebuild the cache.", version.version))
            return
        changes = self._noticing.since(version.noticed, connection)
        if not (version.whole and self._hold_all(rows, changes)):
            if self._hot_set.holds_all:
                self._looked_at = max(self._looked_at, version.version)
                _log.info("%s: leaves version %d, as all of R is hot", self._spec.relation, version.version)
                return
            self._hot_set.replace(rows, version.frequencies, changes, self._noticing.reread)
        self._held = version
        if version.version > self._looked_at:
            self._looked_at, self._refused = version.version, None
        if version.origin == "rebuilt":
            self._rebuilt_at = version.built_at
        _log.info("%s: took over version %d, %s", self._spec.relation, version.version, version.origin)

    def _hold_all(self, rows: RelationRows, changes: Changes) -> bool:
        """Have all of R hot, if it still fits, and all changes since it was read have been noted; whether it is."""
        tables = self._noticing.noting
        if tables is None or not self._hot_set.hold_all(rows, tables, changes, self._noticing.reread):
            return False
        self._files_wait = False
        return True

    def _refuse(self, error: CacheDamagedError) -> None:
        _log.error("%s: %s", self._spec.relation, error)
        self._looked_at = max(self._looked_at, error.version)
        self._refused = (str(error), datetime.now(UTC))
