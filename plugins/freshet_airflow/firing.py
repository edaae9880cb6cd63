"""Keeps a trigger from firing again and again for the same matter. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta

TROUBLE = "trouble"
"""Stands in a matter for the number of an attempt that came to nothing: the next attempt is the same matter."""


class Firing:
    """Fires once for a matter; again for the same one only after a pause, which doubles each time.

    A DAG run that was asked for may take its time, or the DAG may be paused; an event may also get lost.

    Args:
        first_pause: after the first time.
        longest_pause: it doubles up to this.
    """

    def __init__(
        self, first_pause: timedelta = timedelta(minutes=1), longest_pause: timedelta = timedelta(hours=1)
    ) -> None:
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._matter: Hashable = None
        self._pause = first_pause
        self._again_at: datetime | None = None

    def fires(self, matter: Hashable, now: datetime) -> bool:
        """Whether to fire for this matter now; true is taken as done."""
        if self._again_at is None or matter != self._matter:
            self._pause = self._first_pause
        elif now < self._again_at:
            return False
        else:
            self._pause = min(2 * self._pause, self._longest_pause)
        self._matter, self._again_at = matter, now + self._pause
        return True
