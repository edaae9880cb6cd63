"""The pipelines' gauges, as a statsd server gets them from Airflow."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from airflow.observability import stats
from airflow.observability.metrics.stats_utils import get_stats_factory
from freshet_airflow.freshness_metrics import FreshnessMetrics
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.ledger.unread import Unread
from tests.ledger.ledger_rows import add_batch, drive, register


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a statsd server, where Airflow's metrics go."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
        yield server
        monkeypatch.undo()
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


def received(server: socket.socket) -> dict[str, float]:
    """Gauges that have come, up to the mark that this sends after them."""
    stats.gauge("mark", 1)
    gauges: dict[str, float] = {}
    while "airflow.mark" not in gauges:
        name, _, value = server.recv(4096).decode().partition(":")
        gauges[name] = float(value.partition("|")[0])
        assert value.endswith("|g")
    del gauges["airflow.mark"]
    return gauges


def test_each_pipeline_has_its_gauges(
    warehouse_url: str, connection: extensions.connection, statsd: socket.socket
) -> None:
    for name in ("orders", "order_lines"):
        register(connection, name)
    epoch = drive(connection)
    unread = Unread(12, 3400, datetime.now(UTC) - timedelta(seconds=46), time.monotonic())
    drivers.heartbeat(connection, "orders", epoch, unread)
    add_batch(connection, age=timedelta(minutes=2), facts=1)
    add_batch(connection, facts=120, shed=60, latencies_ms=(1000,) * 120)
    FreshnessMetrics().send(read_status(connection))
    gauges = received(statsd)
    orders = {
        name.removeprefix("airflow.freshet.orders."): value for name, value in gauges.items() if ".orders." in name
    }
    assert orders["freshness_p99_ms"] == pytest.approx(1000, rel=0.11)
    assert orders["freshness_target_ms"] == 5000
    assert (orders["arrival_rate"], orders["service_rate"]) == (3, 2)
    assert (orders["backlog_shed"], orders["backlog_unmatched"], orders["backlog_rejected"]) == (60, 0, 0)
    assert orders["state"] == 4
    assert (orders["unread_files"], orders["unread_bytes"]) == (12, 3400)
    assert 46_000 <= orders["oldest_unread_ms"] == orders["freshness_now_ms"]
    assert orders["since_commit_ms"] >= 0
    # What is not known is not sent; a stopped stream is 0.
    assert "staleness_ms" not in orders
    assert "airflow.freshet.order_lines.freshness_p99_ms" not in gauges
    assert "airflow.freshet.order_lines.unread_files" not in gauges
    assert gauges["airflow.freshet.order_lines.state"] == 0


def test_a_second_look_within_a_few_seconds_sends_nothing(
    warehouse_url: str, connection: extensions.connection, statsd: socket.socket
) -> None:
    register(connection)
    metrics = FreshnessMetrics()
    for expected in (True, False):
        metrics.send(read_status(connection))
        assert bool(received(statsd)) is expected
