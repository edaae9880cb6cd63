"""The room of the sketches points at two files of the joins' structures, and at nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_jobs.sketches
from tests.joins.test_imports import imported_modules

ROOM = Path(spark_jobs.sketches.__file__).parent
LIBRARIES = {"numpy"}
STANDARD = {"__future__", "abc", "collections", "copy", "dataclasses", "functools", "math", "struct", "typing", "zlib"}
COLUMNS = {f"spark_jobs.columns.{name}" for name in ("jit", "hashing")}


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.name)
def test_a_module_imports_arrays_kernels_and_its_own_room_only(path: Path) -> None:
    for name in imported_modules(path):
        if name.startswith("spark_jobs"):
            assert name in COLUMNS | {"spark_jobs.errors"} or name.startswith("spark_jobs.sketches")
        else:
            assert name.split(".")[0] in LIBRARIES | STANDARD
