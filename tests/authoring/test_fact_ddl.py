"""The fact table that a definition wants, and what a check tells of one that does not fit."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.authoring.check import check_pipeline
from spark_jobs.authoring.fact_ddl import fact_ddl, fetched_types
from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.errors import PlatformError, SchemaMismatchError
from spark_jobs.local.psql_shell import run_psql
from spark_jobs.settings import Home

SALES = """\
name: sales
source:
  format: json
  path: ${FRESHET_HOME}/landing/sales
  schema: "id string, line int, price decimal(9,2), Sold timestamp, article string"
  event_id: [id, line]
  event_time: Sold
lookups:
  - {relation: master.article, on: {article: code}, fetch: {article_sk: sk, label: label}}
fact:
  table: warehouse.sales
  columns: {id: id, line: line, price: price, "Sold At": Sold, article: article_sk, label: label, batch: _batch_no}
"""


@pytest.fixture
def sales(tmp_path: Path) -> PipelineDefinition:
    (tmp_path / "sales.yaml").write_text(SALES)
    return load_definition(tmp_path / "sales.yaml")


def test_a_table_is_made_that_fits(sales: PipelineDefinition, warehouse_url: str, tmp_path: Path) -> None:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            with pytest.raises(SchemaMismatchError, match=r"master\.article does not exist"):
                fetched_types(connection, sales)
            cursor.execute("CREATE SCHEMA IF NOT EXISTS master")
            cursor.execute("CREATE TABLE master.article (code text PRIMARY KEY, sk bigint, label varchar(9))")
            (missing,) = check_pipeline(sales, warehouse_url, Home(tmp_path)).problems
            assert "there is no such table" in missing
            assert "`freshet ddl sales`" in missing

            cursor.execute(fact_ddl(sales, fetched_types(connection, sales)))
            cursor.execute(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
                "WHERE attrelid = 'warehouse.sales'::regclass AND attnum > 0 ORDER BY attnum"
            )
            assert cursor.fetchall() == [
                ("id", "text", True),
                ("line", "integer", True),
                ("price", "numeric(9,2)", False),
                ("Sold At", "timestamp with time zone", False),
                ("article", "bigint", False),
                ("label", "character varying(9)", False),
                ("batch", "bigint", True),
            ]
    report = check_pipeline(sales, warehouse_url, Home(tmp_path))
    assert not report.problems
    assert any("is not there yet; the stream makes it" in note for note in report.notes)
    assert not (tmp_path / "landing").exists()


def test_words_of_sql_are_names_of_columns(tmp_path: Path, warehouse_url: str) -> None:
    with closing(psycopg2.connect(warehouse_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT word FROM pg_get_keywords() WHERE word NOT IN ('label', 'line')")
        words = [word for (word,) in cursor.fetchall()]
        text = (
            SALES.replace("warehouse.sales", "warehouse.order")
            .replace("article string", ", ".join(["article string", *(f"`{word}` int" for word in words)]))
            .replace('"Sold At": Sold', ", ".join(f'"{word}": "{word}"' for word in words))
        )
        (tmp_path / "sales.yaml").write_text(text)
        cursor.execute(fact_ddl(load_definition(tmp_path / "sales.yaml"), {"article_sk": "bigint", "label": "text"}))
        cursor.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'warehouse.order'::regclass AND attnum > 0")
        assert {name for (name,) in cursor.fetchall()} >= {*words}


def test_landed_files_are_counted(sales: PipelineDefinition, warehouse_url: str, tmp_path: Path) -> None:
    landing = tmp_path / "landing" / "sales"
    landing.mkdir(parents=True)
    for name in ("a.json", "b.json", "_writing.json"):
        (landing / name).write_text("{}")
    landing.chmod(0o700)
    told = f"events: 2 landed files in {landing} (json)"
    assert told in check_pipeline(sales, warehouse_url, Home(tmp_path)).notes
    (landing / "link.json").symlink_to(tmp_path / "sales.yaml")
    landing.chmod(0o777)
    told = f"events: 3 landed files in {landing} (json); 1 links there are not read: let the files themselves land"
    if os.geteuid() == 0:
        told += "; other users may write there, and the driver runs as root: run it as a user of its own"
    assert told in check_pipeline(sales, warehouse_url, Home(tmp_path)).notes


def test_psql_gives_its_output_and_status(warehouse_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_psql(warehouse_url, ["-At", "-c", "SELECT 6 * 7"]) == 0
    assert capfd.readouterr().out.strip() == "42"
    assert run_psql(warehouse_url, ["-c", "SELECT nonsense"]) != 0


def test_a_machine_without_psql_is_told(warehouse_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("spark_jobs.local.psql_shell.programs", lambda _: tmp_path)
    with pytest.raises(PlatformError, match="There is no psql on this machine"):
        run_psql(warehouse_url, [])
