"""A bad day goes through its phases, sees what the platform makes of them, and says what was not as it should be."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
from psycopg2 import extensions
from rich.console import Console

from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition, load_definitions
from spark_jobs.errors import PlatformError
from spark_jobs.ledger.latency import histogram
from spark_jobs.local import bad_day, bad_day_plan
from spark_jobs.local.bad_day import BadDay
from spark_jobs.local.bad_day_plan import LOOKUPS, WARM_UP_RATE, Overload, write_overload_pipelines
from spark_jobs.settings import PROJECT_ROOT, Home

CALM_RATE = 100.0
CUSTOMERS = 60
READ_LIMIT = float(LOOKUPS["master.customer"].read_limit)
KEYS_PER_ORDER = 0.5
CAPACITY = READ_LIMIT / KEYS_PER_ORDER


class PlayedPlatform:
    """Plays what the platform does of a day: at each tick the ledger gets what its streams would have written.

    Every order costs half a key of the customers; what is more than the limit allows is shed, and loaded again
    when the stream has time to spare.

    Args:
        url: a migrated warehouse, with customers.
        home: whose workload is steered.
    """

    SLOWNESS = 0.02  # a tick of the test lasts so long at least

    def __init__(self, url: str, home: Home) -> None:
        self.warehouse_url = url
        self.rates: list[float] = []
        self.freshness_seconds = 1.0
        self.reprocesses = self.validates = self.notices = True
        self.ticks_left = 1_000_000
        self._home = home
        self._at = time.monotonic()
        self._shed: list[int] = []
        self._order = 0
        self._segments: dict[int, str] = {}

    def tick(self, seconds: float = 1.0, doing: str = "") -> bool:
        """Let time go by, and write what happened in it."""
        time.sleep(max(min(seconds, 0.1), self.SLOWNESS))
        now = time.monotonic()
        span, self._at = now - self._at, now
        rate = self._rate()
        self.rates.append(rate)
        with closing(psycopg2.connect(self.warehouse_url)) as connection, connection, connection.cursor() as cursor:
            shed = self._load(cursor, round(rate * span), span)
            self._do_the_rest(cursor, overloaded=shed > 0)
        self.ticks_left -= 1
        return self.ticks_left > 0

    def _rate(self) -> float:
        return (
            float(self._home.workload_rate.read_text())
            if self._home.workload_rate.exists()
            else WARM_UP_RATE * CALM_RATE
        )

    def _load(self, cursor: extensions.cursor, orders: int, span: float) -> int:
        wanted, allowed = orders * KEYS_PER_ORDER, READ_LIMIT * span
        shed = max(0, round(wanted - allowed))
        reads = {"relation": "master.customer", "relation_tuples_read": min(wanted, allowed), "shed": shed}
        latency = histogram(np.full(orders - shed, self.freshness_seconds * 1e6, np.int64)).tolist()
        cursor.execute(
            """
            INSERT INTO freshet.batch
                (pipeline, epoch, state, closed_at, facts, shed, event_latency, statistics)
            VALUES ('orders', 1, 'committed', clock_timestamp(), %s, %s, %s, %s) RETURNING batch_no
            """,
            [orders - shed, shed, latency, json.dumps({"lookups": [reads]})],
        )
        ((batch_no,),) = cursor.fetchall()
        for _ in range(shed):
            self._order += 1
            cursor.execute(
                """
                INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload,
                    payload_encoding, arrived_at, batch_no)
                VALUES ('orders', %s, 0, 'shed', 'shed', '', '', 'json', now(), %s)
                """,
                [str(self._order), batch_no],
            )
        self._store_facts(cursor, batch_no)
        return shed

    def _store_facts(self, cursor: extensions.cursor, batch_no: int) -> None:
        """Some facts of the first customers, which are hot: with the segment that the front stage knows."""
        cursor.execute("SELECT customer_sk, c_mktsegment FROM master.customer WHERE customer_sk <= 5")
        current = dict(cursor.fetchall())
        self._segments = current if self.notices or not self._segments else self._segments
        for customer, segment in self._segments.items():
            self._order += 1
            cursor.execute(
                "INSERT INTO warehouse.fact_orders VALUES (%s, %s, %s, 'O', 1, now(), '', '', 0, now(), %s)",
                [self._order, customer, segment, batch_no],
            )

    def _do_the_rest(self, cursor: extensions.cursor, *, overloaded: bool) -> None:
        if self.reprocesses and not overloaded:
            cursor.execute("DELETE FROM freshet.held_tuple RETURNING 1")
            if taken := cursor.rowcount:
                cursor.execute(
                    "INSERT INTO freshet.reprocessing_run (pipeline, state, algorithm, places, tuple_limit, facts) "
                    "VALUES ('orders', 'finished', 'auto', '{shed}', 1, %s)",
                    [taken],
                )
        if self.validates:
            cursor.execute("INSERT INTO freshet.validation (pipeline, scope, result) VALUES ('orders', '', 'passed')")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    return home


@pytest.fixture
def definitions(home: Home) -> dict[str, PipelineDefinition]:
    """The pipeline of orders alone, as it is under overload."""
    write_overload_pipelines(PROJECT_ROOT / "dags" / "pipelines", home.overload_pipelines, scale=0.1)
    orders = load_definitions(home.overload_pipelines)["orders"]
    return {"orders": orders.model_copy(update={"freshness": orders.freshness.model_copy(update={"target": SECOND})})}


SECOND = timedelta(seconds=1.5)


@pytest.fixture
def platform(warehouse_url: str, home: Home) -> PlayedPlatform:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        register_pipeline(connection, "orders", SECOND, "{}")
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO master.customer (c_custkey, customer_sk, c_name, c_address, c_nationkey, c_phone, "
                "c_acctbal, c_mktsegment, c_comment) "
                "SELECT 1000 + n, n, '', '', 0, '', 0, 'MACHINERY', '' FROM generate_series(1, %s) AS n",
                [CUSTOMERS],
            )
            cursor.execute("SELECT setval(pg_get_serial_sequence('master.customer', 'customer_sk'), %s)", [CUSTOMERS])
    return PlayedPlatform(warehouse_url, home)


@pytest.fixture
def live_through(
    platform: PlayedPlatform,
    home: Home,
    definitions: dict[str, PipelineDefinition],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], BadDay]:
    """Lives through a day of some seconds."""
    monkeypatch.setattr(bad_day_plan, "SHORTEST_DURATION", timedelta(0))
    monkeypatch.setattr(bad_day, "BACKLOG_BOUND", timedelta(seconds=3))

    def live() -> BadDay:
        day = BadDay(Overload(3.0, timedelta(seconds=5)), definitions, home, CALM_RATE, Console(quiet=True))
        day.run(platform)
        return day

    return live


def rows(platform: PlayedPlatform, query: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(platform.warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_a_day_that_was_stood(live_through: Callable[[], BadDay], platform: PlayedPlatform, home: Home) -> None:
    figures = live_through().figures
    assert list(figures.problems()) == []
    assert figures.capacity is not None
    assert figures.capacity.relation == "master.customer"
    assert figures.capacity.orders_per_second == pytest.approx(CAPACITY, rel=0.5)
    assert figures.burst_rate == pytest.approx(3 * figures.capacity.orders_per_second)
    # The workload was steered up twice, and down again.
    rates = [rate for rate, _ in groupby(platform.rates)]
    assert rates == pytest.approx([WARM_UP_RATE * CALM_RATE, CALM_RATE, figures.burst_rate, CALM_RATE])
    burst = figures.burst["orders"]
    # Of three times the capacity, two thirds of what has to be read are shed.
    assert burst.shed / burst.arrived == pytest.approx(KEYS_PER_ORDER * 2 / 3, abs=0.15)
    assert figures.backlog_gone is not None
    assert figures.backlog_gone < timedelta(seconds=3)
    assert figures.change_reached is not None
    assert figures.operations is not None
    assert figures.operations.reprocessed > 0

    # Five hot customers and twenty cold ones have moved to the segment that follows theirs, in the middle of the day.
    moved = "SELECT customer_sk <= 5, count(*) FROM master.customer WHERE c_mktsegment = 'AUTOMOBILE' GROUP BY 1"
    assert sorted(rows(platform, moved)) == [(False, 20), (True, 5)]
    # New customers have come after their orders.
    new = {key for (key,) in rows(platform, f"SELECT c_custkey FROM master.customer WHERE customer_sk > {CUSTOMERS}")}
    [file] = home.landing("orders").iterdir()
    orders = [json.loads(line) for line in file.read_text().splitlines()]
    assert {order["o_custkey"] for order in orders} == new
    assert len({order["o_orderkey"] for order in orders}) == len(orders) == 40


def fail_a_validation(platform: PlayedPlatform) -> None:
    with closing(psycopg2.connect(platform.warehouse_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO freshet.validation (pipeline, scope, result, started_at) "
            "VALUES ('orders', '', 'failed', now() + interval '1 s') RETURNING validation_id"
        )
        ((number,),) = cursor.fetchall()
        cursor.execute(
            "INSERT INTO freshet.validation_result (validation_id, number, expectation, passed, message) "
            "VALUES (%s, 1, '', false, '3 amounts are below 0'), (%s, 2, '', true, 'fine')",
            [number, number],
        )


def test_what_was_not_as_it_should_be_is_said(live_through: Callable[[], BadDay], platform: PlayedPlatform) -> None:
    fail_a_validation(platform)
    platform.freshness_seconds = 4.0
    platform.reprocesses = platform.validates = platform.notices = False
    day = live_through()
    said = list(day.figures.problems())
    expected = [
        r"facts of orders were [34]\.\d s old in the burst \(p99\), the target is 1.5 s",
        r"[\d,]+ tuples still wait to be loaded 3 s after the burst",
        "the changed customers have not reached the facts",
        "a validation failed: orders: 3 amounts are below 0",
        "no validation of orders has passed after the burst",
    ]
    assert [re.fullmatch(*pair) is not None for pair in zip(expected, said, strict=True)] == [True] * 5, said
    assert json.loads(day.figures.to_json())["problems"] == said
    assert platform.rates[-1] <= CALM_RATE


def test_a_day_that_was_cut_short_has_no_other_problem(
    live_through: Callable[[], BadDay], platform: PlayedPlatform
) -> None:
    platform.ticks_left = 10
    assert list(live_through().figures.problems()) == ["the day was cut short"]
    assert platform.rates[-1] <= CALM_RATE


def test_a_stream_that_reads_nothing_has_no_capacity_that_can_be_told(
    live_through: Callable[[], BadDay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.local.test_bad_day.KEYS_PER_ORDER", 0.0)
    with pytest.raises(PlatformError, match="no relation with a read_limit was read"):
        live_through()


@pytest.mark.parametrize(
    ("factor", "seconds", "problem"),
    [
        (1.0, 300, r"overload of 1x is not a bad day\. Give 1\.5x to 10x"),
        (float("nan"), 300, "overload of nanx"),
        (3.0, 20, r"20 s are too short for a bad day.* Give --for 120s or more"),
    ],
)
def test_days_that_make_no_sense_are_refused(factor: float, seconds: float, problem: str) -> None:
    with pytest.raises(PlatformError, match=problem):
        Overload(factor, timedelta(seconds=seconds))


def test_without_the_shipped_pipelines_there_is_no_bad_day(home: Home) -> None:
    with pytest.raises(PlatformError, match="needs the shipped pipeline orders, but there are none"):
        BadDay(Overload(3.0), {}, home, CALM_RATE, Console(quiet=True))
