"""Leaves the processor's caches as a join finds them after a read of R: meanwhile, others have used them."""

from __future__ import annotations

import numpy as np

_BYTES = 2 << 20


class DisplacedCaches:
    """Displaces what the caches nearest to a core hold, which are of about a megabyte.

    Kernels called again and again find code and data there, which makes the steps of a join look cheaper than they
    are between two reads: a page's probes of a hash table of 3 MB, half as dear.
    """

    def __init__(self) -> None:
        self._memory = np.zeros(_BYTES, np.uint8)

    def displace(self) -> None:
        """Walk through other memory; takes about 0.1 ms."""
        self._memory += 1
