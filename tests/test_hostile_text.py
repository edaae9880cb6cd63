"""What a sender of records has written steers no terminal, and forges no line, of any command that shows it."""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.errors import FreshetError
from spark_jobs.job_main import run_main
from spark_jobs.ledger.source_ranges import SourceRange, note_ranges
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE, Home
from spark_jobs.source.files.names import unit_of
from spark_jobs.validation.report import Finding, Report
from tests.ledger.ledger_rows import add_batch, execute, hold, register

HOSTILE = "\x1b[2J\x9b31m\u202e\nFORGED: the law holds"


@pytest.fixture
def warehouse(warehouse_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A pipeline whose sender has put hostile text wherever it gets into: names of files, records, reasons."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    landing = Home(tmp_path).landing("orders")
    landing.mkdir(parents=True)
    name = f"{HOSTILE}.json".replace("/", "")
    (landing / name).write_text(json.dumps({"o_orderkey": HOSTILE}) + "\n")
    with contextlib.closing(psycopg2.connect(warehouse_url)) as connection:
        register(connection)
        batch_no = add_batch(connection, rejected=30)
        hold(connection, json.dumps({"sha256": HOSTILE}, ensure_ascii=False), "rejected", batch_no, datetime.now(UTC))
        execute(connection, "UPDATE freshet.held_tuple SET reason = %s, payload = %s", f"malformed: {HOSTILE}", HOSTILE)
        execute(connection, "UPDATE freshet.held_tuple SET source_unit = %s, source_position = 0", unit_of(name))
        with connection, connection.cursor() as cursor:
            ranges = [SourceRange(unit_of(name), 0, 10, 10, 1, kind="files")]
            note_ranges(cursor, "orders", ranges, "set aside", reason=f"{name}: {HOSTILE}")
    return warehouse_url


def is_shown_as_text(shown: str) -> bool:
    """Whether hostile text is there, as one line of somebody else's text."""
    lines = shown.split("\n")
    return "FORGED" in shown and not any(line.strip().startswith("FORGED") or not line.isprintable() for line in lines)


@pytest.mark.parametrize(
    "command", [["held", "orders"], ["held", "orders", "--samples", "1"], ["source", "orders"], ["verify", "orders"]]
)
@pytest.mark.usefixtures("warehouse")
def test_a_listing_shows_text(command: list[str]) -> None:
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "4000", "TERM": "dumb"})
    assert is_shown_as_text(shown.stdout), shown.stdout


def test_the_status_shows_text(warehouse: str) -> None:
    with contextlib.closing(psycopg2.connect(warehouse)) as connection:
        execute(connection, "UPDATE freshet.pipeline SET desired_state = 'running'")
    shown = CliRunner().invoke(app, ["status"], env={"COLUMNS": "4000", "TERM": "dumb"}).stdout
    assert is_shown_as_text(shown), shown


@pytest.mark.parametrize("error", [FreshetError, ValueError])
def test_a_job_that_fails_ends_with_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[Exception]
) -> None:
    def job(url: str) -> None:
        raise error(f"{url}: {HOSTILE}")

    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, "here")
    monkeypatch.setattr(sys, "argv", ["job"])
    assert run_main(job) == 1
    told = capsys.readouterr().err
    assert is_shown_as_text(told.replace("\n    ", "\n> ")), told
    assert f"{error.__name__}: here" in told


def test_each_expectation_that_failed_is_one_line() -> None:
    finding = Finding(expectation="unique", columns=(), passed=False, unexpected=1, message=HOSTILE)
    told = Report("orders", 1, "failed", "all", 3, (finding,)).message
    assert is_shown_as_text(told), told
