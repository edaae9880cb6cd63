"""How often, and after which pauses, a batch is tried again that could not be loaded. No I/O, no clock."""

from __future__ import annotations

from spark_jobs.stages.failure_kind import FailureKind

# A batch that fails this often in a row will not get better by itself.
MOST_FAILURES = 5
# A driver that can't reach the warehouse can't be told to stop either.
LONGEST_OUTAGE_SECONDS = 1800.0
OUTAGE_PAUSE_SECONDS = 3.0
LONGEST_PAUSE_SECONDS = 30.0
_MOST_DOUBLINGS = 5


class RetryPolicy:
    """The tries of a batch that came to nothing, one after another."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A batch was loaded."""
        self._kind: FailureKind | None = None
        self._tries = 0
        self._since = 0.0

    def pause(self, kind: FailureKind | None, now: float, *, ends: bool) -> float | None:
        """How long to wait before the next try, in seconds; None: give up.

        A stream that is blocked waits for as long as it takes: it is seen, and goes on by itself.

        Args:
            kind: what was in the way this time; None: the batch itself.
            now: in seconds, on a clock that never goes back.
            ends: whether the driver is to end once all that has landed is loaded.
        """
        if not self._tries or kind is not self._kind:
            self._kind, self._tries, self._since = kind, 0, now
        self._tries += 1
        if kind is FailureKind.AWAY:
            return OUTAGE_PAUSE_SECONDS if now - self._since <= LONGEST_OUTAGE_SECONDS else None
        if self._tries >= MOST_FAILURES and (ends or kind is None):
            return None
        return min(2.0 ** min(self._tries - 1, _MOST_DOUBLINGS), LONGEST_PAUSE_SECONDS)
