"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found | None], what: str, timeout_seconds: float = 60.0) -> Found:
    """Look again and again until something is found; fail with `what` if that takes too long."""
    deadline = time.monotonic() + timeout_seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s in vain for {what}"
        time.sleep(0.02)
    return found
