"""From a sample to loaded facts, by the commands that a user types."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, WAREHOUSE_URL_VARIABLE

FRESHET = f"{sysconfig.get_path('scripts')}/freshet"
EVENTS = [{"id": number, "price": number / 4, "at": "2024-01-02T03:04:05Z"} for number in range(8)]


@pytest.fixture
def at_home(tmp_path: Path, warehouse_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipelines").mkdir()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path / "pipelines"))
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    return tmp_path


def freshet(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FRESHET, *arguments], input=given or "", capture_output=True, text=True, check=False, timeout=120
    )


def test_a_sample_becomes_a_pipeline_with_its_table(at_home: Path, warehouse_url: str) -> None:
    sample = at_home / "sales.json"
    sample.write_text("\n".join(map(json.dumps, EVENTS)))
    assert freshet("new", "sales", "--from", str(sample)).returncode == 0
    before = freshet("check", "sales")
    assert before.returncode == 1
    assert "there is no such table" in before.stdout
    assert "`freshet ddl sales`" in before.stdout

    ddl = freshet("ddl", "sales")
    assert ddl.returncode == 0, ddl.stderr
    made = freshet("psql", given=ddl.stdout)
    assert made.returncode == 0, made.stderr
    after = freshet("check", "sales")
    assert after.returncode == 0, after.stdout
    assert "Pipeline sales is ready to load." in after.stdout
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
            "WHERE attrelid = 'warehouse.sales'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert cursor.fetchall() == [
            ("id", "bigint", True),
            ("price", "numeric(9,2)", False),
            ("at", "timestamp with time zone", False),
            ("batch_no", "bigint", True),
        ]
    connection.close()


def test_psql_gives_its_output_and_status(at_home: Path) -> None:
    shown = freshet("psql", "-At", "-c", "SELECT 6 * 7")
    assert (shown.returncode, shown.stdout.strip()) == (0, "42")
    assert freshet("psql", "-c", "SELECT nonsense").returncode != 0
