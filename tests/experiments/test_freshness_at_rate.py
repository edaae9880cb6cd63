"""Freshness at a rate: what keeps it from being measured is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg2
import pytest

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.errors import FreshetError
from spark_jobs.experiments import freshness_at_rate
from spark_jobs.experiments.freshness_at_rate import measure_freshness


def measured(warehouse_url: str, feed: Callable[[int], Callable[[float], None]]) -> dict[str, float]:
    """By a driver that drains when it is to, and loads nothing."""

    def run(*_: object, **__: object) -> None:
        with closing(psycopg2.connect(warehouse_url)) as connection:
            epoch = drivers.take_over(connection, "orders", log_file=None)
            while drivers.heartbeat(connection, "orders", epoch) == "running":
                time.sleep(0.01)

    with closing(psycopg2.connect(warehouse_url)) as connection:
        register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    job: Any = SimpleNamespace(definition=SimpleNamespace(name="orders"), run=run)
    spark: Any = None
    return measure_freshness(spark, job, warehouse_url, feed, 0.01, 0.1)


def test_a_feeder_that_fails_ends_the_run_with_its_own_error(warehouse_url: str) -> None:
    def fail(_: int) -> Callable[[float], None]:
        raise ValueError("no such topic")

    with pytest.raises(ValueError, match="no such topic"):
        measured(warehouse_url, fail)


def test_where_nothing_was_loaded_no_freshness_is_made_up(warehouse_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness_at_rate, "SETTLING_SECONDS", 0.05)
    with pytest.raises(FreshetError, match="orders: no event was loaded"):
        measured(warehouse_url, lambda _: lambda _: None)
