"""Where a temporal join keeps what has to wait, so that results come in the order of validity (004 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputOrdered:
    """Tuples wait: they are taken in one order over all streams, and their results leave at once.

    For joins that give more results than they take tuples.
    """

    buffers_inputs = True
    buffers_results = False


@dataclass(frozen=True)
class OutputOrdered:
    """Results wait: tuples are joined as they arrive, and results leave when all streams have passed their start.

    For joins that give few results.
    """

    buffers_inputs = False
    buffers_results = True


@dataclass(frozen=True)
class AsFound:
    """Nothing waits: tuples come in any order, and results leave when they are found, in none.

    How far a stream has come only `reach` tells; what starts before that is refused. For sources that keep no order,
    and results that need none: which of them there are does not depend on the order of arrival.
    """

    buffers_inputs = False
    buffers_results = False


Emission = InputOrdered | OutputOrdered | AsFound
