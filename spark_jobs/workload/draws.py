"""Random numbers by the number of the event that they belong to: the same, however a stream is cut into files."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_PER_STEP = 4  # 64-bit numbers that Philox makes in one step of its counter


def draws(seed: int, purpose: int, first: int, count: int, each: int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1) for the events first..first+count-1, shape (each, count).

    Philox is a generator whose n-th number can be had without those before it (Salmon et al., Parallel random
    numbers: as easy as 1, 2, 3, SC 2011).

    Args:
        seed: 0 or above.
        purpose: other numbers for each.
        first: the first event's number.
        count: number of events.
        each: numbers for each event, at most 8.
    """
    steps = -(-each // _PER_STEP)
    generator = np.random.Generator(np.random.Philox(key=[seed, purpose]).advance(first * steps))
    return generator.random((count, steps * _PER_STEP)).T[:each]
