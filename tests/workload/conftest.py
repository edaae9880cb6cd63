"""A home with real TPC-H tables, generated once."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.settings import Home
from spark_jobs.workload.tpch_files import generate_tables

SCALE = 0.001


@pytest.fixture(scope="session")
def tpch_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("tpch_home"))
    generate_tables(home, SCALE, lambda step, share: None)
    return home


@pytest.fixture
def seeded_home(tpch_home: Home, tmp_path: Path) -> Home:
    """A home of the test's own that shares the generated tables."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.master_data.symlink_to(tpch_home.master_data)
    return home
