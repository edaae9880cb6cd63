from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import WorkloadError
from spark_jobs.settings import HOME_VARIABLE, Home
from spark_jobs.workload.landing import land
from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream

TICK = timedelta(milliseconds=20)


def run(home: Home, **options: object) -> dict[str, int]:
    chosen = OrderStreamOptions(**({"rate": 2000.0, "tick": TICK} | options))  # type: ignore[arg-type]
    return {name: written.events for name, written in write_order_stream(home, chosen, threading.Event()).items()}


def orders(home: Home) -> list[dict]:
    files = sorted(home.landing("orders").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def lines(home: Home) -> pa.Table:
    files = sorted(home.landing("order_lines").glob("*.parquet"))
    return pa.concat_tables(pyarrow.parquet.read_table(file) for file in files)


def line_ids(home: Home) -> list[tuple[int, int]]:
    landed = lines(home)
    return list(zip(landed["l_orderkey"].to_pylist(), landed["l_linenumber"].to_pylist(), strict=True))


def test_orders_land_with_all_their_lines(seeded_home: Home) -> None:
    written = run(seeded_home, orders=300)
    ids = [order["o_orderkey"] for order in orders(seeded_home)]
    assert len(set(ids)) == len(ids) == 300 == written["orders"]
    assert len(set(line_ids(seeded_home))) == len(line_ids(seeded_home)) == written["order_lines"]
    assert {order for order, _ in line_ids(seeded_home)} == set(ids)


def test_event_times_are_the_moments_of_the_run_in_order(seeded_home: Home) -> None:
    before = datetime.now(UTC)
    run(seeded_home, orders=300, bursty=False)
    after = datetime.now(UTC)
    moments = [datetime.fromisoformat(order["ordered_at"]) for order in orders(seeded_home)]
    assert before <= moments[0]
    assert moments[-1] <= after
    assert moments == sorted(moments)
    gaps = {later - earlier for earlier, later in itertools.pairwise(moments)}
    assert min(gaps) > timedelta()
    of_lines = dict(
        zip((order for order, _ in line_ids(seeded_home)), lines(seeded_home)["ordered_at"].to_pylist(), strict=True)
    )
    assert list(of_lines.values()) == moments


def test_event_times_follow_the_clock_when_the_machine_has_slept(
    seeded_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    sleep = 3600.0

    def wall_clock() -> float:
        return time.time() + (sleep if next(ticks) > 10 else 0.0)

    monkeypatch.setattr("spark_jobs.workload.pace.time", SimpleNamespace(time=wall_clock, monotonic=time.monotonic))
    run(seeded_home, duration=timedelta(seconds=1))
    moments = [datetime.fromisoformat(order["ordered_at"]) for order in orders(seeded_home)]
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(moments)]
    assert max(gaps) == pytest.approx(sleep, abs=2)
    assert sum(gap > 1 for gap in gaps) == 1


def test_a_steady_stream_has_the_rate_asked_for(seeded_home: Home) -> None:
    assert run(seeded_home, rate=500, bursty=False, duration=timedelta(seconds=1))["orders"] == pytest.approx(
        500, abs=1
    )


def test_equal_seeds_give_equal_events_but_for_their_times(tmp_path: Path, tpch_home: Home) -> None:
    events = []
    for number in range(2):
        home = Home(tmp_path / str(number))
        home.root.mkdir()
        home.master_data.symlink_to(tpch_home.master_data)
        run(home, orders=200, bad_share=0.1, rate=2000.0 * (number + 1))
        landed = [
            line.split(b',"ordered_at"')[0]
            for file in home.landing("orders").iterdir()
            for line in file.read_bytes().splitlines()
        ]
        events.append(sorted(landed))
    assert events[0] == events[1]


def test_a_second_run_goes_on_behind_the_first(seeded_home: Home) -> None:
    for _ in range(3):
        run(seeded_home, orders=100)
    ids = [order["o_orderkey"] for order in orders(seeded_home)]
    assert len(set(ids)) == 300
    assert ids == sorted(ids)


def test_orders_begin_again_with_new_ids_when_tpch_is_used_up(seeded_home: Home) -> None:
    run(seeded_home, orders=3200, rate=100_000.0)
    assert len({order["o_orderkey"] for order in orders(seeded_home)}) == 3200


def test_bad_input_is_counted_as_it_lies_there(seeded_home: Home) -> None:
    options = OrderStreamOptions(rate=5000, orders=1000, bad_share=0.2, tick=TICK)
    written = write_order_stream(seeded_home, options, threading.Event())
    landed = [line for file in seeded_home.landing("orders").iterdir() for line in file.read_bytes().splitlines()]
    assert len(landed) == written["orders"].events == 1000 + written["orders"].bad["duplicate_id"]
    duplicates = sum(count - 1 for count in Counter(landed).values())
    assert duplicates == written["orders"].bad["duplicate_id"] > 0
    assert sum(b"nobody" in line for line in landed) == written["orders"].bad["wrong_type"] > 0
    assert lines(seeded_home).num_rows == written["order_lines"].events
    assert lines(seeded_home)["l_partkey"].null_count == written["order_lines"].bad["null_key"] > 0


def test_a_backlog_is_worked_off_in_files_of_bounded_size(seeded_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.workload.order_stream.MAX_ORDERS_PER_FILE", 50)
    run(seeded_home, rate=100_000.0, orders=1000)
    sizes = [len(file.read_bytes().splitlines()) for file in seeded_home.landing("orders").glob("*.json")]
    assert max(sizes) == 50
    assert sum(sizes) == 1000


def test_a_reader_never_sees_a_part_of_a_file(seeded_home: Home) -> None:
    """Every file that is visible at any time parses whole, and never changes again."""
    stop = threading.Event()
    options = OrderStreamOptions(rate=20_000, tick=timedelta(milliseconds=10), bursty=False)
    writer = threading.Thread(target=write_order_stream, args=(seeded_home, options, stop))
    writer.start()
    seen: dict[Path, int] = {}
    while len(seen) < 20:
        for file in seeded_home.landing("orders").glob("[!.]*"):
            content = file.read_bytes()
            assert content.endswith(b"}\n")
            assert seen.setdefault(file, len(content)) == len(content)
    stop.set()
    writer.join()


GENERATOR = """
import sys
from datetime import timedelta
from spark_jobs.settings import home
from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
from spark_jobs.workload.stop_signal import StopSignal
with StopSignal() as stop:
    options = OrderStreamOptions(rate=20_000, tick=timedelta(milliseconds=10))
    written = write_order_stream(home(), options, stop, lambda written: print(written["orders"].events, flush=True))
"""


def start_generator(home: Home) -> subprocess.Popen:
    environment = os.environ | {HOME_VARIABLE: str(home.root)}
    return subprocess.Popen([sys.executable, "-c", GENERATOR], env=environment, stdout=subprocess.PIPE, text=True)


def test_no_id_is_written_twice_when_runs_are_killed(seeded_home: Home) -> None:
    for files in (1, 2, 3, 5, 8):
        with start_generator(seeded_home) as generator:
            assert generator.stdout is not None
            for _ in range(files):
                assert generator.stdout.readline()
            generator.kill()
    run(seeded_home, orders=100)
    ids = [order["o_orderkey"] for order in orders(seeded_home)]
    assert len(ids) > 500
    assert len(set(ids)) == len(ids)
    assert len(set(line_ids(seeded_home))) == len(line_ids(seeded_home))
    assert not list(seeded_home.landing("orders").glob(".*"))


class PowerCut(BaseException):
    pass


@pytest.mark.parametrize("landed_before", range(4))
def test_no_id_is_written_twice_wherever_in_a_tick_it_ends(
    seeded_home: Home, monkeypatch: pytest.MonkeyPatch, landed_before: int
) -> None:
    calls = itertools.count()

    def land_or_end(folder: Path, name: str, content: bytes) -> None:
        if next(calls) == landed_before:
            raise PowerCut
        land(folder, name, content)

    monkeypatch.setattr("spark_jobs.workload.order_stream.land", land_or_end)
    with pytest.raises(PowerCut):
        run(seeded_home)
    monkeypatch.undo()
    run(seeded_home, orders=100)
    ids = [order["o_orderkey"] for order in orders(seeded_home)]
    assert len(set(ids)) == len(ids) >= 100
    assert len(set(line_ids(seeded_home))) == len(line_ids(seeded_home))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_written_that_was_told(seeded_home: Home, number: int) -> None:
    with start_generator(seeded_home) as generator:
        assert generator.stdout is not None
        generator.stdout.readline()
        generator.send_signal(number)
        told = generator.stdout.read().split()
    assert generator.returncode == 0
    assert len(orders(seeded_home)) == int(told[-1])


def test_two_workloads_in_one_home_are_refused(seeded_home: Home) -> None:
    with (
        exclusive_lock(seeded_home.workload_state.with_suffix(".lock"), wait=False),
        pytest.raises(WorkloadError, match=r"running .* already"),
    ):
        run(seeded_home, orders=1)


def test_a_home_without_tables_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="Run `freshet seed`"):
        run(Home(tmp_path), orders=1)


def test_a_scale_must_be_chosen_among_several(tmp_path: Path) -> None:
    for scale in ("0.1", "1"):
        (tmp_path / "tpch" / f"scale-{scale}").mkdir(parents=True)
    with pytest.raises(WorkloadError, match=r"0\.1, 1\. Choose one"):
        run(Home(tmp_path), orders=1)
    with pytest.raises(WorkloadError, match="freshet seed --scale 10"):
        run(Home(tmp_path), orders=1, scale=10.0)


def test_a_damaged_state_is_not_overwritten(seeded_home: Home) -> None:
    seeded_home.workload_state.write_text("{")
    with pytest.raises(WorkloadError, match="is damaged"):
        run(seeded_home, orders=1)
    assert seeded_home.workload_state.read_text() == "{"


def test_landed_events_are_not_overwritten_when_the_state_is_gone(seeded_home: Home) -> None:
    run(seeded_home, orders=10)
    seeded_home.workload_state.unlink()
    with pytest.raises(WorkloadError, match="says where to continue, is gone"):
        run(seeded_home, orders=10)
    assert len(orders(seeded_home)) == 10


def test_a_state_of_another_scale_is_refused(seeded_home: Home) -> None:
    seeded_home.workload_state.write_text('{"scale": "10", "next_order": 5, "next_file": 1}')
    with pytest.raises(WorkloadError, match=r"scale 10, not 0\.001"):
        run(seeded_home, orders=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("rate", 0.0), ("rate", -1.0), ("rate", float("nan")), ("rate", 2e6),
        ("zipf", -1.0), ("zipf", float("inf")), ("seed", -1), ("duration", timedelta()), ("orders", 0),
        ("bad_share", 1.1), ("bad_share", -0.1), ("tick", timedelta()),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(WorkloadError, match=option.replace("_", " ")):
        OrderStreamOptions(**{option: value})  # type: ignore[arg-type]
