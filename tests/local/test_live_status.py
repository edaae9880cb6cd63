"""The status on the terminal, and on what is no terminal."""

import io
from contextlib import closing
from datetime import timedelta

import psycopg2
from rich.console import Console

from spark_jobs.control.registration import register_pipeline
from spark_jobs.local.live_status import LiveStatus
from spark_jobs.local.terminal_progress import StartupSteps

FOOTER = "Airflow: http://127.0.0.1:8080"


def register(url: str) -> None:
    with closing(psycopg2.connect(url)) as connection:
        register_pipeline(connection, "orders", timedelta(seconds=5), "{}")


def shown(url: str, *, terminal: bool) -> str:
    output = io.StringIO()
    with LiveStatus(Console(file=output, force_terminal=terminal, width=200), url, FOOTER) as live:
        live.update("Draining.")
    return output.getvalue()


def test_a_terminal_gets_a_table_and_the_address_of_the_ui(warehouse_url: str) -> None:
    register(warehouse_url)
    text = shown(warehouse_url, terminal=True)
    for part in ("pipeline", "lag", "p50 / p99", "orders", "Draining.", FOOTER):
        assert part in text


def test_a_file_gets_a_plain_line_for_each_pipeline(warehouse_url: str) -> None:
    register(warehouse_url)
    text = shown(warehouse_url, terminal=False)
    assert text.splitlines() == [
        "Draining.",
        "orders: stopped, unread unknown, arrived 0, loaded 0, shed 0, unmatched 0, rejected 0, 0 facts/s, "
        "hit ratio -, freshness p50 / p99 - / -, target 5.0 s",
    ]


def test_plain_lines_come_now_and_then_only(warehouse_url: str) -> None:
    register(warehouse_url)
    output = io.StringIO()
    with LiveStatus(Console(file=output, width=200), warehouse_url, FOOTER) as live:
        for _ in range(3):
            live.update()
    assert output.getvalue().count("orders:") == 1


def test_a_warehouse_that_is_away_is_told_and_no_error() -> None:
    text = shown("postgresql://loader:secret@127.0.0.1:1/facts", terminal=True)
    assert "The warehouse does not answer" in text
    assert "No pipeline has been registered" not in text, "nobody knows"
    assert "secret" not in text


def test_a_step_is_told_with_its_time() -> None:
    output = io.StringIO()
    with StartupSteps(Console(file=output)) as steps, steps.step("PostgreSQL"):
        steps.report("master.part", 0.5)
    name, time = output.getvalue().strip().split(": ")
    assert name == "PostgreSQL"
    assert float(time.removesuffix(" s")) >= 0
