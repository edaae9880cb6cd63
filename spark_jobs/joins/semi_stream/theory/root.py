"""Where an increasing function crosses zero: the models' equations have no closed solution, but one root each."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq


def increasing_root(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9) -> float:
    """The x between two bounds where an increasing function is 0; a bound, if it is not 0 between them.

    Args:
        function: increasing; need not be smooth.
        low: where to look from.
        high: where to look to.
        tolerance: part of x that it may be off by.
    """
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    return float(brentq(function, low, high, rtol=tolerance, maxiter=200))
