"""How many results a join of intervals within sliding windows is to be expected to have (004 §7)."""

from __future__ import annotations


def near_together(streams: int, positions: int, length: int) -> int:
    """In how many ways as many positions as there are streams, out of 1 to `positions`, lie in `length` in a row.

    The least of them is at one of positions - length + 1 places, with length**n - (length - 1)**n ways each; the last
    length - 1 places hold the rest.
    """
    length = min(length, positions)
    if not length:
        return 0
    return (positions - length + 1) * (length**streams - (length - 1) ** streams) + (length - 1) ** streams


def expected_results(streams: int, tuples: int, length: int, window: int, come: int | None = None) -> float:
    """Results of streams with a tuple at each instant, whose intervals begin at each value once, in random order.

    Values and instants are independent: of the ways in which n instants lie in a window, each is a result if the values
    there lie in an interval's length, near_together / tuples**n.

    Args:
        streams: n.
        tuples: of each stream: instants, and values.
        length: of the intervals: whole numbers from the first to the last in it.
        window: for how many instants a tuple is valid.
        come: how many tuples of each stream have come; None for all.
    """
    values = near_together(streams, tuples, length)
    times = near_together(streams, tuples if come is None else come, window)
    return values * times / float(tuples) ** streams
