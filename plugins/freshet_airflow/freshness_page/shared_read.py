"""A read that is done once for all who ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from spark_jobs.errors import WarehouseUnavailableError

Value = TypeVar("Value")


class SharedRead(Generic[Value]):
    """Answers from its last result while that is young; else reads again, once, in a thread.

    Failures are results, too: while the warehouse is away, it is asked once in `max_age_seconds`.

    Args:
        read: the blocking read; it may raise a WarehouseUnavailableError.
        max_age_seconds: how long a result counts as young.
        patience_seconds: how long somebody who asks is kept waiting.
    """

    def __init__(self, read: Callable[[], Value], max_age_seconds: float, patience_seconds: float) -> None:
        self._read = read
        self._max_age_seconds = max_age_seconds
        self._patience_seconds = patience_seconds
        self._reading: asyncio.Task[Value] | None = None
        self._done_at: float | None = None

    async def value(self) -> Value:
        """The result of the last read, or of a new one.

        Raises:
            WarehouseUnavailableError: the read failed, or takes too long.
        """
        if self._reading is None or self._is_old():
            self._done_at = None
            self._reading = asyncio.create_task(asyncio.to_thread(self._read))
            self._reading.add_done_callback(self._note_end)
        try:
            # Shielded: who loses patience, or goes away, leaves the read to the others.
            return await asyncio.wait_for(asyncio.shield(self._reading), self._patience_seconds)
        except TimeoutError:
            raise WarehouseUnavailableError(
                f"The warehouse has not answered for {self._patience_seconds:g} s. Check that its server runs and "
                "is not overloaded."
            ) from None

    def _is_old(self) -> bool:
        return self._done_at is not None and time.monotonic() - self._done_at > self._max_age_seconds

    def _note_end(self, reading: asyncio.Task[Value]) -> None:
        self._done_at = time.monotonic()
        if not reading.cancelled():
            reading.exception()  # looked at: nobody may be left to await it
