"""Streams whose exact join sizes numpy tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def zipf_counts(domain: int, elements: int, exponent: float, seed: int) -> Counts:
    weights = np.arange(1, domain + 1) ** -exponent
    return np.random.default_rng(seed).multinomial(elements, weights / weights.sum())


def shifted_pair(seed: int, domain: int = 4_096, exponent: float = 1.0, shift: int = 20) -> tuple[Counts, Counts]:
    """A Zipf stream and one whose values are shifted to the right, as frequencies of 0 .. domain - 1."""
    first, second = (zipf_counts(domain, 40_000, exponent, 2 * seed + other) for other in (0, 1))
    return first, np.roll(second, shift)


def join_size(first: Counts, second: Counts) -> float:
    return float(first.astype(np.float64) @ second)
