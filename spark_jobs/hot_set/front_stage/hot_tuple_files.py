"""The front stage of one lookup and its files: what it begins with, takes over from rebuilds, and has learned."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import UTC, datetime

from psycopg2 import extensions

from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.hot_set.cache_files import CacheStore, CacheVersion
from spark_jobs.hot_set.front_stage.hot_tuples import HotTuplesKeeper
from spark_jobs.hot_set.watch.noticing import Noticing
from spark_jobs.relation.relation_spec import RelationSpec

_log = logging.getLogger(__name__)

LEARNED_SECONDS = 30.0


class HotTupleFiles:
    """Moves versions of the hot tuples between a front stage and the disk.

    Args:
        spec: the relation.
        keeper: the front stage.
        store: its versions on disk.
        noticing: tells what has changed since a version was made.
        writer: writes files, so that no change has to wait for the disk to be noticed.

    Attributes:
        held: the version that the front stage has taken over or written last; None: none.
        rebuilt_at: when the rebuilt version that was taken over last was made.
        refused: why the newest version on disk is not used, and since when.
    """

    def __init__(
        self, spec: RelationSpec, keeper: HotTuplesKeeper, store: CacheStore, noticing: Noticing, writer: Executor
    ) -> None:
        self.held: CacheVersion | None = None
        self.rebuilt_at: datetime | None = None
        self.refused: tuple[str, datetime] | None = None
        self._spec = spec
        self._keeper = keeper
        self._store = store
        self._noticing = noticing
        self._writer = writer
        self._writing: Future[None] | None = None
        self._written_at = time.monotonic()
        self._looked_at = 0  # the newest version that was taken over or refused

    def begin(self, connection: extensions.connection) -> None:
        """Begin with the newest sound version; with nothing where there is none. Its tuples are all read again.

        Args:
            connection: to the warehouse.
        """
        version, refused = self._store.newest_sound()
        for error in refused:
            self._refuse(error)
        if version is not None:
            self._take_over(replace(version, noticed=None), connection)

    def take_over_rebuilt(self, connection: extensions.connection) -> None:
        """Take over a rebuilt version if there is a new one. One that is damaged is refused; the former goes on.

        Args:
            connection: to the warehouse.
        """
        try:
            version = self._store.newest(after=self._looked_at, origin="rebuilt")
        except CacheDamagedError as error:
            self._refuse(error)
            return
        if version is not None:
            self._take_over(version, connection)

    def write_learned(self, *, at_end: bool = False) -> None:
        """Write down what the front stage holds, if it is time and the last version has been written.

        Args:
            at_end: whether the driver ends: it is time then.
        """
        busy = self._writing is not None and not self._writing.done()
        if not at_end and (busy or time.monotonic() - self._written_at < LEARNED_SECONDS):
            return
        self._written_at = time.monotonic()
        noticed = self._noticing.noticed if self._noticing.watched == "triggers" else None
        version = self._keeper.export(noticed)
        if version is not None:
            self._writing = self._writer.submit(self._write, version)

    def _write(self, version: CacheVersion) -> None:
        try:
            self.held = replace(version, version=self._store.write(version))
        except FreshetError as error:
            _log.warning("%s: %s", self._spec.relation, error)

    def _take_over(self, version: CacheVersion, connection: extensions.connection) -> None:
        rows = version.rows
        if rows.keys.kinds != self._spec.key_kinds or rows.columns.schema != self._spec.rows_schema:
            what = f"Version {version.version} of the hot tuples of {self._spec.relation} is refused: its columns are "
            self._refuse(CacheDamagedError(what + "not those of the lookup. Rebuild the cache.", version.version))
            return
        changes = self._noticing.since(version.noticed, connection)
        self._keeper.replace(rows, version.frequencies, changes, self._noticing.reread)
        self.held = version
        if version.version > self._looked_at:
            self._looked_at, self.refused = version.version, None
        if version.origin == "rebuilt":
            self.rebuilt_at = version.built_at
        _log.info("%s: took over version %d, %s", self._spec.relation, version.version, version.origin)

    def _refuse(self, error: CacheDamagedError) -> None:
        _log.error("%s: %s", self._spec.relation, error)
        self._looked_at = max(self._looked_at, error.version)
        self.refused = (str(error), datetime.now(UTC))
