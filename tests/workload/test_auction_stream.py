"""The workload of auctions: what lands, in what order, and that a run goes on where the last one ended."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.definition import load_definition
from spark_jobs.errors import WorkloadError
from spark_jobs.settings import HOME_VARIABLE, PROJECT_ROOT, Home
from spark_jobs.workload.auction_stream import AuctionStreamOptions, write_auction_stream
from spark_jobs.workload.landing import land_parquet
from spark_jobs.workload.nexmark import EVENT_TIMES, SCHEMAS, STREAMS
from spark_jobs.workload.transit import Disorder

OPTIONS = {"rate": 1000.0, "events": 5000, "past": True, "tick": timedelta(seconds=0.5)}
LATE = timedelta(minutes=1)


def run(home: Home, **options: object) -> dict[str, int]:
    chosen = AuctionStreamOptions(**(OPTIONS | options))  # type: ignore[arg-type]
    return {name: written.events for name, written in write_auction_stream(home, chosen, threading.Event()).items()}


def landed(home: Home, stream: str) -> pa.Table:
    files = sorted(home.landing(stream).glob("*.parquet"))
    return pa.concat_tables(pyarrow.parquet.read_table(file) for file in files)


def moments(home: Home, stream: str) -> np.ndarray:
    return landed(home, stream)[EVENT_TIMES[stream]].cast(pa.int64()).to_numpy()


def test_the_events_of_the_past_end_now_and_land_in_order(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert run(home) == {"persons": 100, "auctions": 300, "bids": 4600}
    bids = moments(home, "bids")
    assert len(bids) == 4600
    assert (np.diff(bids) > 0).all()
    assert bids[-1] <= time.time() * 1e6
    assert bids[-1] - bids[0] > 1e6  # with bursts, it takes about five seconds


def test_disorder_shuffles_events_within_its_spread_and_a_few_come_late(tmp_path: Path) -> None:
    home = Home(tmp_path)
    run(home, disorder=Disorder(timedelta(seconds=0.2), 0.01, LATE), bursty=False)
    bids = landed(home, "bids")
    assert sorted(bids["bid_id"].to_pylist()) == list(range(4600))
    times = moments(home, "bids")
    behind = np.maximum.accumulate(times) - times
    is_late = bids["bid_id"].to_numpy() < np.maximum.accumulate(bids["bid_id"].to_numpy()) - 300
    assert 0.002 < is_late.mean() < 0.02
    assert 0 < behind[~is_late].max() <= 0.3e6
    assert (behind > 0).mean() > 0.5


def test_a_second_run_goes_on_behind_the_first_wherever_in_a_tick_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(BaseException):
        pass

    for landed_before in range(5):
        home = Home(tmp_path / str(landed_before))
        calls = itertools.count()

        def land_or_end(folder: Path, name: str, events: pa.Table, calls=calls, most=landed_before) -> None:  # type: ignore[no-untyped-def]
            if next(calls) == most:
                raise PowerCut
            land_parquet(folder, name, events)

        with monkeypatch.context() as patched:
            patched.setattr("spark_jobs.workload.auction_stream.land_parquet", land_or_end)
            with pytest.raises(PowerCut):
                run(home, disorder=Disorder(timedelta(seconds=0.2)))
        run(home, events=500)
        for stream in STREAMS:
            ids = landed(home, stream)[0].to_pylist()
            assert len(set(ids)) == len(ids) > 0


def test_in_real_time_it_takes_the_time_that_it_takes(tmp_path: Path) -> None:
    home, before = Home(tmp_path), time.time()
    run(home, past=False, events=600, rate=2000.0, tick=timedelta(milliseconds=50), bursty=False)
    bids = moments(home, "bids") / 1e6
    assert before <= bids[0] <= bids[-1] <= time.time()
    assert bids[-1] - bids[0] == pytest.approx(0.3, abs=0.02)


def test_the_streams_are_what_the_pipeline_says_that_they_are() -> None:
    definition = load_definition(PROJECT_ROOT / "dags/pipelines/optional/auction_bids.yaml")
    for name, source in definition.streams.items():
        assert list(source.columns) == SCHEMAS[name].names
        assert source.event_time == EVENT_TIMES[name]


def test_the_command_tells_what_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    told = CliRunner().invoke(app, ["generate", "auction_bids", "--past", "--orders", "500", "--disorder", "1s"])
    assert told.exit_code == 0
    assert told.output.splitlines() == [
        f"{stream}: {landed(Home(tmp_path), stream).num_rows} events written" for stream in STREAMS
    ]


def test_what_can_not_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="past: give the number of events"):
        AuctionStreamOptions(past=True)
    with pytest.raises(WorkloadError, match="events 0"):
        AuctionStreamOptions(events=0)
    with pytest.raises(WorkloadError, match=r"Late share 2"):
        Disorder(late_share=2.0)
    home = Home(tmp_path)
    run(home, events=100)
    home.auctions_state.unlink()
    with pytest.raises(WorkloadError, match="says where to continue, is gone"):
        run(home)
