"""SIGTERM and SIGINT as something to wait for, instead of something that interrupts."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType


class StopSignal:
    """For the time of the block, a signal to end is remembered, and wakes a wait.

    A pipe, not a threading.Event: setting an event in a signal handler can lock up with its own waiter.
    """

    def __enter__(self) -> StopSignal:
        self._reader, self._writer = os.pipe()
        self._previous = {number: signal.signal(number, self._remember) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, no longer than this; return whether one has come, now or earlier."""
        return bool(select.select([self._reader], [], [], max(seconds, 0.0))[0])

    def _remember(self, number: int, frame: FrameType | None) -> None:
        os.write(self._writer, b"\0")
