"""Probes a tuple of MJoin and AMJoin, the size of the bit vectors, and what a flushed hash value frees (002 §2)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

_ENTRY_BYTES = 6


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


def paper_failing_probes(streams: int) -> float:
    """(n - 1) / 2 (002 §2.1)."""
    return (streams - 1) / 2


def best_order(shares: Sequence[float]) -> list[int]:
    """The order of independent tables in which a tuple takes fewest probes: the one with the smallest share first."""
    return sorted(range(len(shares)), key=lambda table: shares[table])


def am_join_probes(streams: int, complete: float) -> float:
    """Looks of AMJoin for a tuple: one at its bit vector, and the other tables' if all of them have its key.

    Args:
        streams: n.
        complete: the part of the tuples whose key all streams have by then.
    """
    return 1 + (streams - 1) * complete


def bit_vector_bytes(keys: float) -> float:
    """The bit vectors of so many keys, 6 bytes each (002 §3), places that are left free not counted."""
    return _ENTRY_BYTES * keys


def mixed_entries(keys: int, lines: int) -> float:
    """Pairs of keys to be expected that share an entry: 32 bits of their hashes and the line are the same."""
    return keys * (keys - 1) / 2 / (2**32 * lines)


def tuples_of_random_value(tuples: float, values: float) -> float:
    """What a flush of a hash value at random frees, of those with tuples: keys fall on values by chance.

    Args:
        tuples: in memory.
        values: hash values that have any.
    """
    return tuples / values
