"""What Prometheus is told, read by its own parser, and what the shipped rules and the dashboard ask it for."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import psycopg2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from psycopg2 import errors, extensions

from spark_jobs import monitoring
from spark_jobs.errors import PlatformError
from spark_jobs.ledger.status.driver_states import State
from spark_jobs.ledger.status.figures import STATES
from spark_jobs.ledger.status.pipeline_status import StatusReader
from spark_jobs.monitoring import prometheus
from spark_jobs.monitoring.prometheus import PipelineCollector, serving
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE
from tests.ledger.ledger_rows import MINUTE, add_batch, drive, execute, register
from tests.waiting import wait_for

FOLDER = Path(monitoring.__file__).parent
Samples = dict[tuple[str, str, str | None], float]


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        for name in ("orders", "visits"):
            register(connection, name)
        drive(connection)
        add_batch(connection, age=2 * MINUTE, facts=1)
        add_batch(connection, facts=120, shed=60, latencies_ms=(1000,) * 120)
        yield connection


@pytest.fixture
def address(warehouse_url: str, connection: extensions.connection) -> Iterator[str]:
    with serving(PipelineCollector(warehouse_url), "127.0.0.1", 0) as address:
        yield address


def scraped(address: str) -> str:
    with urlopen(address, timeout=60) as response:
        return response.read().decode()


def samples(text: str) -> Samples:
    """Value by metric, pipeline and state."""
    return {
        (sample.name, sample.labels.get("pipeline", ""), sample.labels.get("state")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_pipeline_has_its_metrics(address: str) -> None:
    told = samples(scraped(address))
    assert told["freshet_warehouse_up", "", None] == 1
    assert told["freshet_freshness_p99_seconds", "orders", None] == pytest.approx(1, rel=0.11)
    assert told["freshet_freshness_target_seconds", "orders", None] == 5
    assert told["freshet_loaded_total", "orders", None] == 121
    assert told["freshet_backlog_shed", "orders", None] == 60
    # What is not known is left out.
    assert ("freshet_freshness_p99_seconds", "visits", None) not in told
    in_state = {(name, state) for (metric, name, state), value in told.items() if metric == "freshet_state" and value}
    assert in_state == {("orders", "overloaded"), ("visits", "stopped")}


def test_what_is_lost_at_the_source_has_a_metric(address: str, connection: extensions.connection) -> None:
    for state, unit in [("lost", "a"), ("lost", "a"), ("lost", "b"), ("set aside", "c")]:
        execute(connection, "INSERT INTO freshet.source_range (pipeline, state, unit, first, last, reason) "
                "VALUES ('orders', %s, %s, 0, 1, 'gone')", state, unit)  # fmt: skip
    told = samples(scraped(address))
    assert [told[f"freshet_{name}", "orders", None] for name in ("lost", "set_aside")] == [3, 1]
    assert told["freshet_lost", "visits", None] == 0
    assert time.time() - told["freshet_lost_at_seconds", "orders", None] < 60
    assert ("freshet_lost_at_seconds", "visits", None) not in told


def test_every_state_has_a_number() -> None:
    assert set(STATES) == {state for each in get_args(State) for state in (get_args(each) or (each,))}


def test_a_session_that_has_ended_is_begun_anew(address: str, connection: extensions.connection) -> None:
    scraped(address)
    execute(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            "freshet metrics")  # fmt: skip
    assert samples(scraped(address))["freshet_loaded_total", "orders", None] == 121


def test_a_warehouse_that_is_away_is_told_and_waited_for(
    address: str, connection: extensions.connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(prometheus, "connect", lambda *_, **__: psycopg2.connect("host=/nowhere"))
        assert samples(scraped(address)) == {("freshet_warehouse_up", "", None): 0}
    assert samples(scraped(address))["freshet_loaded_total", "orders", None] == 121


def test_what_takes_too_long_is_not_tried_again(
    address: str, connection: extensions.connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    scraped(address)
    tries = []

    def read(*_: object) -> None:
        tries.append(1)
        raise errors.QueryCanceled("canceling statement due to statement timeout")

    monkeypatch.setattr(StatusReader, "read", read)
    assert samples(scraped(address)) == {("freshet_warehouse_up", "", None): 0}
    assert len(tries) == 1


def test_a_port_that_is_taken_is_told(address: str, warehouse_url: str) -> None:
    port = urlsplit(address).port
    assert port is not None
    with (
        pytest.raises(PlatformError, match=f"Nothing can listen on 127.0.0.1:{port}"),
        serving(PipelineCollector(warehouse_url), "127.0.0.1", port),
    ):
        pass


def test_the_command_serves_until_it_is_ended(
    connection: extensions.connection, warehouse_url: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, HOME_VARIABLE: str(tmp_path), WAREHOUSE_URL_VARIABLE: warehouse_url}
    command = [sys.executable, "-m", "spark_jobs.cli", "metrics", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{port}/metrics"
        assert address in process.stdout.readline()
        assert samples(scraped(address))["freshet_loaded_total", "orders", None] == 121
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())


def queries() -> list[str]:
    """Of the alert rules and of the dashboard's panels."""
    rules = yaml.safe_load((FOLDER / "alert-rules.yml").read_text())
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return asked + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_rules_and_dashboard_ask_for_metrics_that_there_are(address: str) -> None:
    there_are = {name for name, *_ in samples(scraped(address))}
    described = {family.name for family in text_string_to_metric_families(scraped(address))}
    variables = [variable["query"] for variable in DASHBOARD["templating"]["list"]]
    asked = {name for query in queries() + variables for name in re.findall(r"freshet_\w+", query)}
    assert asked - there_are - described == set()
    assert asked


prometheus_is_there = pytest.mark.skipif(shutil.which("prometheus") is None, reason="a package of Debian's has it")


@prometheus_is_there
def test_prometheus_itself_finds_nothing_wrong(address: str) -> None:
    subprocess.run(["promtool", "check", "rules", FOLDER / "alert-rules.yml"], check=True)
    subprocess.run(["promtool", "check", "metrics"], input=scraped(address), text=True, check=True)


@prometheus_is_there
def test_what_is_lost_is_told_for_a_day_each_time_and_what_is_set_aside_until_it_is_settled(tmp_path: Path) -> None:
    """Of a shop that has lost something when it is first seen, at 02:00, and has a file set aside from 40:00 on."""
    told = {"1h": False, "3h": True, "24h": True, "27h": False, "41h": True, "43h": False}
    tests = {
        "rule_files": [str(FOLDER / "alert-rules.yml")],
        "tests": [
            {
                "interval": "1h",
                "input_series": [
                    {"series": 'freshet_lost_at_seconds{pipeline="shop"}', "values": "_ _ 7200x60"},
                    {"series": 'freshet_set_aside{pipeline="shop"}', "values": "0x39 1 1 0x20"},
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="FreshetSourceLost"}) or vector(0)',
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                    for at, fires in told.items()
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    subprocess.run(["promtool", "test", "rules", tmp_path / "tests.yml"], check=True)


@pytest.fixture
def server(address: str, tmp_path: Path) -> Iterator[str]:
    """A Prometheus that scrapes and judges by the shipped rules each second."""
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FOLDER / "alert-rules.yml")],
        "scrape_configs": [{"job_name": "freshet", "static_configs": [{"targets": [urlsplit(address).netloc]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        listening = f"127.0.0.1:{probe.getsockname()[1]}"
    options = {
        "config.file": tmp_path / "prometheus.yml",
        "storage.tsdb.path": tmp_path,
        "web.listen-address": listening,
    }
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        yield f"http://{listening}/api/v1"
        process.terminate()


def answer(server: str, path: str, **parameters: str) -> Any:
    with urlopen(f"{server}/{path}?{urlencode(parameters)}", timeout=60) as response:
        return json.load(response)["data"]


@prometheus_is_there
def test_prometheus_scrapes_and_judges(server: str) -> None:
    def overloaded() -> list[str]:
        try:
            alerts = [alert["labels"] for alert in answer(server, "alerts")["alerts"]]
        except URLError:  # It does not listen yet.
            return []
        return [labels["pipeline"] for labels in alerts if labels["alertname"] == "FreshetOverloaded"]

    assert wait_for(overloaded, "an alert") == ["orders"]
    (loaded,) = answer(server, "query", query='freshet_loaded_total{pipeline="orders"}')["result"]
    assert loaded["value"][1] == "121"
    rules = [rule for group in answer(server, "rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    for query in queries():
        answer(server, "query", query=query.replace("$pipeline", ".*"))
