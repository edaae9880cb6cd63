"""The workload in the background: it writes for the pipelines that are there, and ends with all that it started."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.errors import PlatformError
from spark_jobs.local.workload_process import WorkloadProcesses
from spark_jobs.settings import Home
from tests.waiting import wait_for


def test_it_writes_for_the_pipelines_that_are_there_and_for_no_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    others = WorkloadProcesses(home, {"visits"}, scale=0.1, rate=1000)
    others.start()
    assert not list(home.processes.glob("*"))
    auctions = WorkloadProcesses(home, {"visits", "auction_bids"}, scale=0.1, rate=1000)
    auctions.start()
    [begun] = (record.read_text() for record in home.processes.iterdir())
    auctions.start()
    try:
        wait_for(lambda: list(home.landing("bids").glob("*.parquet")), "bids")
        auctions.check()
        assert not home.landing("orders").exists()
        [record] = home.processes.iterdir()
        assert record.read_text() == begun, "they run already"
    finally:
        # As after a crash: another one finds what was left.
        WorkloadProcesses(home, {"visits"}, scale=0.1, rate=1000).stop()
    assert not record.exists()
    with pytest.raises(PlatformError, match=r"The workload ended by itself. The end of .*auctions\.log"):
        auctions.check()
