"""The fixtures of the warehouse's tests, with the oldest server instead of the embedded one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loading_warehouse import clean_warehouse, connection, loading_warehouse, orders  # noqa: F401
from tests.oldest_postgres.server import PROGRAMS, OldestPostgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[OldestPostgres]:
    """One server for all tests of this folder."""
    if not PROGRAMS.exists():
        pytest.skip(f"there is no {PROGRAMS}: Debian's package brings it, as .ci/run does")
    with tempfile.TemporaryDirectory(prefix="freshet-tests-") as folder:
        Path(folder).chmod(0o711)
        with OldestPostgres(Path(folder) / "oldest").running() as server:
            yield server
