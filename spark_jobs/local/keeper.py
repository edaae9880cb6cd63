"""Starts something again whenever it has ended by itself."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from spark_jobs.errors import PlatformError

TRIES = 5
_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 8.0

_log = logging.getLogger(__name__)


class Keeper:
    """Looks twice a second whether something runs, in a thread of its own, and starts it again; with pauses that grow.

    Args:
        name: what messages call it.
        is_running: whether it runs, or is not to be started for now.
        start: starts it. A PlatformError counts as a failed try.
        why_ended: what is told if it ends again and again though `start` did not fail.
        tries: how many in a row, before it is given up; None: it never is.
        steady_seconds: how long it has to run until a try counts as one that succeeded.
    """

    def __init__(
        self,
        name: str,
        is_running: Callable[[], bool],
        start: Callable[[], None],
        why_ended: Callable[[], str],
        *,
        tries: int | None = TRIES,
        steady_seconds: float = 0.0,
    ) -> None:
        self._name = name
        self._is_running = is_running
        self._start = start
        self._why_ended = why_ended
        self._most_tries = tries
        self._steady_seconds = steady_seconds
        self._tries = 0
        self._started_at = time.monotonic()
        self._failure: PlatformError | None = None
        self._given_up = False

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Keep it running for the time of the block, at the end of which a try that is under way is waited for."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep, args=[over], name=f"keeper of {self._name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def check(self) -> None:
        """Raise a PlatformError if it was given up, with the cause."""
        if self._given_up:
            assert self._failure is not None
            raise self._failure

    def _keep(self, over: threading.Event) -> None:
        while not over.wait(self._pause_seconds()):
            if self._is_running():
                if time.monotonic() - self._started_at >= self._steady_seconds:
                    self._tries, self._failure = 0, None
            elif self._tries == self._most_tries:
                cause = self._failure or self._why_ended()
                tried = f"{self._name} has ended by itself, and could not be started again ({self._tries} tries)."
                self._failure, self._given_up = PlatformError(f"{tried} {cause}"), True
                return
            else:
                self._try()

    def _try(self) -> None:
        _log.warning("%s has ended by itself, and is started again", self._name)
        self._tries += 1
        self._started_at = time.monotonic()
        try:
            self._start()
            self._failure = None
        except PlatformError as error:
            self._failure = error

    def _pause_seconds(self) -> float:
        return min(_LOOK_SECONDS * 2 ** max(0, self._tries - 1), _LONGEST_PAUSE_SECONDS)
