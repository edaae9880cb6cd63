"""Leaves the processor's caches as a join finds them after a read of R: meanwhile, others have used them."""

from __future__ import annotations

import numpy as np

_BYTES = 2 << 20


class DisplacedCaches:
    """Displaces what the caches nearest to a core hold, which are of about a megabyte."""

    def __init__(self) -> None:
        self._memory = np.zeros(_BYTES, np.uint8)

    def displace(self) -> None:
        """Walk through memory of no use; takes 0.1 ms."""
        self._memory += 1
