"""State of a part within the state of the whole: its arrays under names that begin with the part's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = Mapping[str, NDArray[np.generic]]


def nested(part: str, state: State) -> dict[str, NDArray[Any]]:
    """The arrays of a part, as they are named in the whole. O(arrays)."""
    return {f"{part}.{name}": array for name, array in state.items()}


def part_of(state: State, part: str) -> dict[str, NDArray[Any]]:
    """The reverse: the arrays of a part, under its own names. O(arrays of the whole)."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
