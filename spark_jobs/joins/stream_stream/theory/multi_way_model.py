"""Probes a tuple of MJoin and AMJoin, and the keys that bit vectors mix up (002 §2)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np


def m_join_probes(shares: Sequence[float]) -> float:
    """Tables that MJoin looks into for a tuple, until one has not its key.

    Args:
        shares: of each table, in the order of the probes, the part of the tuples found in those before it that are
            found there too: 1 + s_1 + s_1 s_2 + ..., the last table's share counting for nothing.
    """
    return 1 + float(np.cumprod(shares[:-1]).sum())


def failing_probes(shares: Sequence[float]) -> float:
    """The same for a tuple that fails, where finding it in one table says nothing of another.

    With five streams, shares of two thirds make it the (n - 1) / 2 that the paper reckons with (002 §2.1).
    """
    found = prod(shares)
    return (m_join_probes(shares) - len(shares) * found) / (1 - found)


def am_join_probes(streams: int, complete: float) -> float:
    """Looks of AMJoin for a tuple: one at its bit vector, and the other tables' if all of them have its key.

    Args:
        streams: n.
        complete: the part of the tuples whose key all streams have by then.
    """
    return 1 + (streams - 1) * complete


def mixed_entries(keys: int, lines: int) -> float:
    """Pairs of keys to be expected that share an entry: 32 bits of their hashes and the line are the same."""
    return keys * (keys - 1) / 2 / (2**32 * lines)
