"""Where a temporal join keeps what has to wait, so that results come in the order of validity (004 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputOrdered:
    """Tuples wait: they are taken in one order over all streams, and their results leave at once.

    For joins that give more results than they take tuples.
    """

    buffers_inputs = True


@dataclass(frozen=True)
class OutputOrdered:
    """Results wait: tuples are joined as they arrive, and results leave when all streams have passed their start.

    For joins that give few results.
    """

    buffers_inputs = False


Emission = InputOrdered | OutputOrdered
