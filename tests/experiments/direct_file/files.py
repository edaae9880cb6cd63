"""Direct files for the tests: tuples whose payload tells their key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.direct_file.writer import write_direct_file


def payload_of(keys: NDArray[np.int64], payload_bytes: int) -> NDArray[np.uint8]:
    """The payload of the tuples with these keys, uint8, shape (n, payload_bytes)."""
    return (keys[:, None] * 31 + np.arange(payload_bytes) * 7 + 5).astype(np.uint8)


def write(path: Path, keys: Sequence[int], tuple_bytes: int = 24, index_rows: int = 4, chunk_rows: int = 7) -> Path:
    """A direct file of these keys, which came in chunks."""
    array = np.array(keys, np.int64)
    chunks = [array[start : start + chunk_rows] for start in range(0, len(array), chunk_rows)]
    pairs = ((chunk, payload_of(chunk, tuple_bytes - 8)) for chunk in chunks)
    write_direct_file(path, pairs, tuple_bytes, len(keys), index_rows)
    return path
