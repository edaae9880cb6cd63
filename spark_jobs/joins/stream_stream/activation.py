"""When a disk part is worth reading while the inputs pause: the activation threshold of XJoin (UF00; 001 §3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class Activation:
    """A disk part is read when the other stream's tuples that it has yet to meet are this part of it, or more.

    Each of those finds as many new matches among the tuples that are read as any other, so this is how many results are
    expected from reading a tuple, up to the chance that two match. Low thresholds give results sooner, and read more.

    Attributes:
        threshold: fresh tuples in memory per tuple on disk; 0 for one tuple at least, infinite for never.
    """

    threshold: float = 0.1

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"an activation threshold is at least 0, not {self.threshold}")

    def due(self, fresh: Int64Array, on_disk: Int64Array) -> bool:
        """Whether a disk part is. Shapes (streams, partitions); O(streams x partitions)."""
        return bool(self.worth(fresh, on_disk).any())

    def next(self, fresh: Int64Array, on_disk: Int64Array) -> tuple[int, int]:
        """Stream and partition of the disk part that gives most for each tuple read; one is due."""
        gain = np.where(self.worth(fresh, on_disk), fresh, -1)
        stream, partition = np.unravel_index(np.argmax(gain), gain.shape)
        return int(stream), int(partition)

    def worth(self, gain: Int64Array, on_disk: Int64Array) -> NDArray[np.bool_]:
        """Which disk parts are worth reading for a gain each, in tuples or what counts like one. O(n)."""
        return (gain > 0) & (on_disk > 0) & (gain >= self.threshold * np.maximum(on_disk, 1))


NEVER = Activation(float("inf"))
