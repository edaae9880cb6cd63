"""Notices the changes of one lookup's relation, and brings them into its front stage."""

from __future__ import annotations

import logging
import time

import numpy as np
import psycopg2
from psycopg2 import extensions

from spark_jobs.definition import Lookup
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.hot_set.front_stage.hot_tuples import HotTuplesKeeper
from spark_jobs.hot_set.watch.rereading import Rereading
from spark_jobs.relation.changes.noted_since import noted_since
from spark_jobs.relation.changes.triggers import Outcome
from spark_jobs.relation.changes.unnoticed import Changes, current_snapshot, unnoticed
from spark_jobs.relation.changes.watched_tables import WatchedTable
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.read_limit import Clock
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.warehouse.cache_rows import Watched

_log = logging.getLogger(__name__)

# A query for more keys would take more memory, and could not be cut short when the driver ends.
_KEYS_AT_ONCE = 20_000


class Noticing:
    """Looks for changes where triggers note them; reads all hot tuples again now and then where they don't.

    Args:
        lookup: the lookup.
        relation: its relation, through a connection that no batch waits for.
        keeper: its front stage.
        clock: tells seconds.

    Attributes:
        watched: how changes are noticed.
        noticed: pg_snapshot as text: changes by transactions visible in it are in the front stage. None before the
            first look.
        noticed_at: when that snapshot was taken, by the clock.
    """

    def __init__(
        self, lookup: Lookup, relation: LiveRelation, keeper: HotTuplesKeeper, clock: Clock = time.monotonic
    ) -> None:
        self.watched: Watched = "nothing"
        self.noticed: str | None = None
        self.noticed_at = clock()
        self._coming: Watched | None = None  # changes may have been missed: so, once all has been read again
        self._tables: tuple[WatchedTable, ...] = ()
        self._lookup = lookup
        self._relation = relation
        self._keeper = keeper
        self._clock = clock
        self._rereading = Rereading(lookup, keeper, self.reread, clock)

    def watch(self, connection: extensions.connection, outcome: Outcome) -> None:
        """From now on rely on triggers, or do without them. Tables that are not as they were may hold other rows.

        Args:
            connection: to the warehouse.
            outcome: whether triggers note the relation's changes, and on which tables.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: as `notice`.
        """
        mode: Watched = "triggers" if outcome.refusal is None else "rereading"
        if mode == "rereading" and mode not in (self.watched, self._coming):
            _log.warning(
                "%s: no triggers note its changes (%s). Instead, all hot tuples are read again every %s.",
                self._lookup.relation,
                outcome.refusal,
                self._lookup.notice_changes / 2,
            )
        unnoted = mode == "triggers" and outcome.tables != self._tables
        self._tables = outcome.tables
        if unnoted or mode != self.watched or self._coming is not None:
            self._coming = mode
            self._change_over(connection, mode)

    def notice(self, connection: extensions.connection) -> None:
        """Bring what has been committed into the front stage, if a look is due.

        Args:
            connection: to the warehouse.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away. The next call makes up for this one.
        """
        if self._coming is not None:
            self._change_over(connection, self._coming)
        elif self.watched == "triggers" and self.noticed is not None:
            at = self._clock()
            changes = unnoticed(connection, self._relation.spec, self.noticed)
            connection.commit()
            self._keeper.refresh(changes, self.reread)
            self.noticed, self.noticed_at = changes.noticed, at
        else:
            ended = self._rereading.go_on(connection)
            if ended is not None:
                self.noticed, self.noticed_at = ended.snapshot, ended.began_at

    def since(self, noticed: str | None, connection: extensions.connection) -> Changes:
        """What has changed in R since tuples of it were read; anything, where that has not been noted throughout.

        Args:
            noticed: pg_snapshot as text, from before they were read; None where that is not known.
            connection: to the warehouse.
        """
        if noticed is not None and noted_since(connection, self._lookup.relation, noticed):
            changes = unnoticed(connection, self._relation.spec, noticed)
        else:
            changes = self._anything(connection)
        connection.commit()
        return changes

    def reread(self, keys: KeyColumns) -> RelationRows:
        """The tuples of R with these keys, as they are now.

        Raises:
            psycopg2.ProgrammingError, SchemaMismatchError: R, or a column of it, is there no longer or is another one.
                No tuple is hot then: batches read R, and fail for the same reason, rather than go on with old tuples.
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away.
        """
        parts = [RelationRows.empty(self._relation.spec)]
        try:
            for first in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys.take(np.arange(first, min(first + _KEYS_AT_ONCE, len(keys))))
                parts.append(self._relation.lookup_keys(some).rows)
        except (psycopg2.ProgrammingError, SchemaMismatchError):
            self._keeper.forget()
            raise
        return RelationRows.concatenate(parts)

    def _change_over(self, connection: extensions.connection, mode: Watched) -> None:
        """Read all hot tuples again, and take none that the running batch found: nobody would read it once more."""
        at = self._clock()
        changes = self._anything(connection)
        connection.commit()
        self._keeper.refresh(changes, self.reread)
        self._rereading.pause()
        self.noticed, self.noticed_at = changes.noticed, at
        self.watched, self._coming = mode, None

    def _anything(self, connection: extensions.connection) -> Changes:
        return Changes(current_snapshot(connection), RelationRows.empty(self._relation.spec).keys, anything=True)
