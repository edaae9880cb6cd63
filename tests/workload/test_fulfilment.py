"""Payments and shipments: that they follow their orders, how many and how soon, across runs too."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.settings import PROJECT_ROOT, Home
from spark_jobs.workload.fulfilment import EVENT_TIMES, LONGEST_SECONDS, PAYMENT, SHIPMENT, parts_of
from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
from spark_jobs.workload.transit import Disorder

ORDERS = 20_000
DISORDER = Disorder(timedelta(seconds=1), 0.01)


@pytest.fixture(scope="module")
def parts() -> dict[str, tuple[pa.Table, np.ndarray]]:
    return parts_of(numbered_orders(0, ORDERS), 0, np.zeros(ORDERS, np.int64), seed=1)


def numbered_orders(first: int, count: int) -> pa.Table:
    keys = np.arange(first, first + count)
    return pa.table(
        {"o_orderkey": keys, "o_totalprice": pa.array(keys).cast(pa.decimal128(19)).cast(pa.decimal128(15, 2))}
    )


def run(home: Home, **options: object) -> None:
    chosen = {"rate": 2000.0, "tick": timedelta(milliseconds=20), "fulfilment": DISORDER} | options
    write_order_stream(home, OrderStreamOptions(**chosen), threading.Event())  # type: ignore[arg-type]


def landed(home: Home, stream: str) -> pa.Table:
    files = sorted(home.landing(stream).glob("*.parquet"))
    return pa.concat_tables(pyarrow.parquet.read_table(file) for file in files)


def order_keys(home: Home) -> list[int]:
    files = sorted(home.landing("orders").glob("*.json"))
    return [json.loads(line)["o_orderkey"] for file in files for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize(("stream", "delay"), [("payments", PAYMENT), ("shipments", SHIPMENT)])
def test_parts_follow_as_often_and_as_soon_as_their_delay_says(parts: dict, stream: str, delay: object) -> None:
    table, of = parts[stream]
    assert table.num_rows / ORDERS == pytest.approx(1 - delay.never, abs=0.01)  # type: ignore[attr-defined]
    seconds = table[EVENT_TIMES[stream]].cast(pa.int64()).to_numpy() / 1e6
    assert np.median(seconds) == pytest.approx(delay.median, rel=0.05)  # type: ignore[attr-defined]
    assert seconds.min() > 0
    assert LONGEST_SECONDS / 2 < seconds.max() <= LONGEST_SECONDS
    assert table["order_id"].to_pylist() == of.tolist()


def test_a_good_many_are_shipped_before_they_are_paid(parts: dict) -> None:
    times = {}
    for stream, (table, of) in parts.items():
        times[stream] = np.full(ORDERS, np.nan)
        times[stream][of] = table[EVENT_TIMES[stream]].cast(pa.int64()).to_numpy()
    assert 0.1 < np.nanmean(times["shipments"] < times["payments"]) < 0.3


def test_what_follows_an_order_does_not_depend_on_how_orders_are_cut(parts: dict) -> None:
    for stream, (table, _) in parts.items():
        cuts = [
            parts_of(numbered_orders(first, 333), first, np.zeros(333, np.int64), seed=1)[stream][0]
            for first in range(0, 999, 333)
        ]
        cut = pa.concat_tables(cuts)
        assert cut == table.slice(0, cut.num_rows)


def test_all_parts_of_orders_of_the_past_have_landed(seeded_home: Home) -> None:
    run(seeded_home, orders=1000, past=True)
    keys = order_keys(seeded_home)
    for stream in EVENT_TIMES:
        parts = landed(seeded_home, stream)
        assert len(set(parts[0].to_pylist())) == parts.num_rows > 900
        assert set(parts["order_id"].to_pylist()) < set(keys)
    assert not seeded_home.workload_under_way.exists()


def test_parts_that_are_due_after_a_run_come_in_the_next(seeded_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    run(seeded_home, orders=400)
    kept = {
        stream: pyarrow.parquet.read_table(seeded_home.workload_under_way / f"{stream}.parquet")
        for stream in EVENT_TIMES
    }
    assert kept["shipments"].num_rows > 300  # nothing much is shipped within seconds
    later = 2 * LONGEST_SECONDS
    later_clock = SimpleNamespace(time=lambda: time.time() + later, monotonic=time.monotonic)
    monkeypatch.setattr("spark_jobs.workload.pace.time", later_clock)
    run(seeded_home, orders=10)
    for stream, waiting in kept.items():
        assert set(waiting[0].to_pylist()) <= set(landed(seeded_home, stream)[0].to_pylist())
        assert len(set(landed(seeded_home, stream)[0].to_pylist())) == landed(seeded_home, stream).num_rows


def test_the_streams_are_what_the_pipeline_says_that_they_are(parts: dict) -> None:
    definition = load_definition(PROJECT_ROOT / "dags/pipelines/fulfilment.yaml")
    for stream, (table, _) in parts.items():
        assert list(definition.streams[stream].columns) == table.column_names
        assert definition.streams[stream].event_time == EVENT_TIMES[stream]
