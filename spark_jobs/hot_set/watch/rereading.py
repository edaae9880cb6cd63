"""Reads all hot tuples of a lookup again, round after round, where no triggers note the changes of its relation."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from psycopg2 import extensions

from spark_jobs.definition import Lookup
from spark_jobs.hot_set.front_stage.hot_tuples import HotTuplesKeeper, Reread
from spark_jobs.relation.changes.unnoticed import current_snapshot
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.read_limit import Clock, ReadLimit


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
        keeper: its front stage.
        reread: reads tuples of R.
        clock: tells seconds.
    """

    def __init__(self, lookup: Lookup, keeper: HotTuplesKeeper, reread: Reread, clock: Clock = time.monotonic) -> None:
        self._pause_seconds = lookup.notice_changes.total_seconds() / 2
        self._limit = None if lookup.read_limit is None else ReadLimit(lookup.read_limit, clock)
        self._keeper = keeper
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
            self._round, self._position = Round(snapshot, began_at, self._keeper.hot_keys), 0
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
        self._keeper.read_again(keys.take(np.arange(self._position, following)), self._reread)
        self._position = following
