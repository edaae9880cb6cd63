"""Where an increasing function crosses zero: the models' equations have no closed solution, but one root each."""

from __future__ import annotations

from collections.abc import Callable

_MOST_STEPS = 200


def increasing_root(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9) -> float:
    """The x between two bounds where an increasing function is 0; a bound, if it is not 0 between them.

    Regula falsi with the Illinois rule, and a halving step wherever that converges slowly: faster than halving alone,
    and as safe.

    Args:
        function: increasing; need not be smooth.
        low: where to look from.
        high: where to look to.
        tolerance: part of x that it may be off by.
    """
    at_low, at_high = function(low), function(high)
    if at_low >= 0:
        return low
    if at_high <= 0:
        return high
    for step in range(_MOST_STEPS):
        width = high - low
        if width <= tolerance * abs(high):
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if step % 3 == 2 or not low < middle < high:
            middle = (low + high) / 2
        at_middle = function(middle)
        if at_middle == 0:
            return middle
        if at_middle < 0:
            low, at_low, at_high = middle, at_middle, at_high / 2
        else:
            high, at_high, at_low = middle, at_middle, at_low / 2
    return (low + high) / 2
