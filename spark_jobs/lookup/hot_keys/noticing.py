"""Notices changes of one lookup's relation and brings them into its hot set: by triggers, or by rereading it all."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

import numpy as np
import psycopg2
from psycopg2 import extensions

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.changes.triggers import WatchOutcome
from spark_jobs.lookup.changes.unnoticed import Changes, current_snapshot, incarnation, unnoticed
from spark_jobs.lookup.changes.watched_tables import WatchedTable, noted_since, notes_every_change
from spark_jobs.lookup.hot_keys.cache_table import Watched
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet, Reread
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.read_limit import Clock, ReadLimit
from spark_jobs.lookup.relation.relation_rows import RelationRows

_log = logging.getLogger(__name__)

# A query for more keys would take more memory, and could not be cut short when the driver ends.
_KEYS_AT_ONCE = 20_000


class Noticing:
    """Looks for changes where triggers note them; reads all hot tuples again now and then where they don't.

    Args:
        lookup: the lookup.
        relation: its relation, through a connection that no batch waits for.
        hot_set: what is to be kept as new as R.
        clock: tells seconds.

    Attributes:
        watched: how changes are noticed.
        noticed: pg_snapshot as text: changes by transactions visible in it are in the front stage. None before the
            first look.
        noticed_at: when that snapshot was taken, by the clock.
        changed: the same of the last look that found a change.
    """

    def __init__(
        self, lookup: Lookup, relation: LiveRelation, hot_set: LearnedHotSet, clock: Clock = time.monotonic
    ) -> None:
        self.watched: Watched = "nothing"
        self.noticed: str | None = None
        self.changed: str | None = None
        self.noticed_at = clock()
        self._coming: Watched | None = None  # changes may have been missed: so, once all has been read again
        self._server: str | None = None
        self._tables: tuple[WatchedTable, ...] = ()
        self._lookup = lookup
        self._relation = relation
        self._hot_set = hot_set
        self._clock = clock
        self._rereading = Rereading(lookup, hot_set, self.reread, clock)

    @property
    def noting(self) -> tuple[WatchedTable, ...] | None:
        """The tables that hold R's rows, where triggers on them note every change; else None."""
        noted = self.watched == "triggers" and self._coming is None and notes_every_change(self._tables)
        return self._tables if noted else None

    def watch(self, connection: extensions.connection, outcome: WatchOutcome) -> None:
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
        if self._is_another_server(connection) and self._coming is None and self.watched != "nothing":
            self._coming = self.watched
        if self._coming is not None:
            self._change_over(connection, self._coming)
        elif self.watched == "triggers" and self.noticed is not None:
            at = self._clock()
            changes = unnoticed(connection, self._relation.spec, self.noticed)
            connection.commit()
            self._hot_set.refresh(changes, self.reread)
            self.noticed, self.noticed_at = changes.noticed, at
            if not changes.nothing:
                self.changed = changes.noticed
        else:
            ended = self._rereading.go_on(connection)
            if ended is not None:
                self.noticed, self.noticed_at = ended.snapshot, ended.began_at
                self.changed = ended.snapshot

    def _is_another_server(self, connection: extensions.connection) -> bool:
        """Whether the server was started, or has crashed, since the last look: `noticed` may tell nothing any more."""
        former, self._server = self._server, incarnation(connection)
        return former is not None and former != self._server

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
        try:
            return self._relation.rows_of_keys(keys, _KEYS_AT_ONCE)
        except (psycopg2.ProgrammingError, SchemaMismatchError):
            self._hot_set.forget()
            raise

    def _change_over(self, connection: extensions.connection, mode: Watched) -> None:
        """Read all hot tuples again, and take none that the running batch found: it would not be read once more."""
        at = self._clock()
        changes = self._anything(connection)
        connection.commit()
        self._hot_set.refresh(changes, self.reread)
        self._rereading.pause()
        self.noticed, self.noticed_at = changes.noticed, at
        self.changed = changes.noticed
        self.watched, self._coming = mode, None

    def _anything(self, connection: extensions.connection) -> Changes:
        return Changes(current_snapshot(connection), RelationRows.empty(self._relation.spec).keys, anything=True)


class Round(NamedTuple):
    """One reading of all hot tuples.

    Attributes:
        snapshot: pg_snapshot as text, taken before the first tuple was read.
        began_at: when that was, by the clock.
        keys: the tuples that were hot then.
    """

    snapshot: str
    began_at: float
    keys: KeyColumns


class Rereading:
    """Rounds of reading all hot tuples again, with a pause of half of the lookup's `notice_changes` between them.

    A tuple that a batch finds during a round stays as it was found until the next one: hence half of the time. The
    pause counts from the end of a round: however long a round takes, R is left alone between two.

    Where the lookup has a `read_limit`, a round reads as many tuples a second at most, beside what the tasks read. It
    never waits for that: it goes on at the next look, so that other relations' changes are noticed meanwhile.

    Args:
        lookup: the lookup.
        hot_set: what is to be kept as new as R.
        reread: reads tuples of R.
        clock: tells seconds.
    """

    def __init__(self, lookup: Lookup, hot_set: LearnedHotSet, reread: Reread, clock: Clock = time.monotonic) -> None:
        self._pause_seconds = lookup.notice_changes.total_seconds() / 2
        self._limit = None if lookup.read_limit is None else ReadLimit(lookup.read_limit, clock)
        self._hot_set = hot_set
        self._reread = reread
        self._clock = clock
        self._ended_at = clock()
        self._round: Round | None = None
        self._position = 0  # of the next key of the round

    def pause(self) -> None:
        """All tuples have just been read: the next round begins after a pause."""
        self._round = None
        self._ended_at = self._clock()

    def go_on(self, connection: extensions.connection) -> Round | None:
        """Read what may be read now; begin a round if it is time.

        Args:
            connection: to the warehouse.

        Returns:
            the round, if this was the end of it.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: R can't be read. The next call goes on with the same tuples.
        """
        if self._round is None:
            if self._clock() - self._ended_at < self._pause_seconds:
                return None
            began_at = self._clock()
            snapshot = current_snapshot(connection)
            connection.commit()
            self._round, self._position = Round(snapshot, began_at, self._hot_set.hot_keys), 0
        ended = self._round
        while self._position < len(ended.keys):
            if self._limit is not None and self._limit.seconds_until_ready() > 0:
                return None
            self._read_some(ended.keys)
        self.pause()
        return ended

    def _read_some(self, keys: KeyColumns) -> None:
        following = len(keys)
        if self._limit is not None:
            following = min(following, self._position + self._limit.tuples_at_once)
            self._limit.take(following - self._position)
        self._hot_set.read_again(keys.take(np.arange(self._position, following)), self._reread)
        self._position = following
