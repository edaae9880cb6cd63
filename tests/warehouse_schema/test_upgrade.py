"""A warehouse of the last release is upgraded: it gets the schema of a new one, and keeps all that it holds."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import sql
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.definition import load_definitions
from spark_jobs.definition.fates import FATES
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.local.embedded_postgres.server_user import programs, server_user
from spark_jobs.proof.verification import verify
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE, Home
from tests.warehouse_schema.released import restore

ARRIVED = {"fulfilment": 734, "order_lines": 985, "orders": 250}
# Only their names told the release which ranges are a topic's.
_TOPIC_ID = "Wg4J+X4tT7aHygb/hMau6g"
KINDS = {
    f"t:0@{_TOPIC_ID}": "kafka",
    f"clicks/t:12@{_TOPIC_ID}": "kafka",
    f"a/b/t:0@{_TOPIC_ID}": "files",
    "sales/2026-01-01T10:30@shop.json": "files",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upgraded")


@pytest.fixture(scope="module")
def fresh(migrated_database: str, home: Path) -> str:
    """A new warehouse; that it is there means that the server has the roles."""
    _migrate(migrated_database, home)
    return migrated_database


@pytest.fixture(scope="module")
def upgraded(fresh: str, postgres_database: str, home: Path) -> str:
    restore(postgres_database, home)
    with closing(psycopg2.connect(postgres_database)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO freshet.source_range (pipeline, state, unit, first, last) "
            "SELECT 'visits', 'loaded', unnest(%s), 0, 9",
            [list(KINDS)],
        )
    before = _counts(postgres_database)
    _migrate(postgres_database, home)
    assert _counts(postgres_database).items() >= before.items()
    return postgres_database


def _migrate(url: str, home: Path) -> None:
    done = CliRunner().invoke(app, ["migrate"], env={WAREHOUSE_URL_VARIABLE: url, HOME_VARIABLE: str(home)})
    assert done.exit_code == 0, done.output


def _counts(url: str) -> dict[str, int]:
    """How many rows each table has."""
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN "
                       "('freshet', 'master', 'warehouse')")  # fmt: skip
        counts = {}
        for table in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*table)))
            counts[".".join(table)] = cursor.fetchone()[0]
    return counts


def _schema(url: str) -> list[str]:
    """What pg_dump says of all but rows, and of the scale that was seeded."""
    command = [programs(server_user()) / "pg_dump", "--schema-only", "--dbname", url]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    left_out = ("--", "\\restrict", "\\unrestrict", "COMMENT ON SCHEMA master")
    return [line for line in dump.splitlines() if line and not line.startswith(left_out)]


def test_its_schema_is_that_of_a_new_warehouse(upgraded: str, fresh: str) -> None:
    assert _schema(upgraded) == _schema(fresh)


def test_each_table_of_the_release_had_rows(upgraded: str) -> None:
    empty = {table for table, rows in _counts(upgraded).items() if rows == 0}
    assert empty == {"warehouse.fact_auction_bids"}, "else the upgrade is tried with nothing"


def test_its_status_is_read(upgraded: str) -> None:
    with closing(psycopg2.connect(upgraded)) as connection:
        found = {status.name: status for status in read_status(connection)}
    assert {name: found[name].arrived for name in ARRIVED} == ARRIVED
    assert found.keys() == {*ARRIVED, "visits"}


def test_ranges_of_partitions_are_told_from_those_of_files(upgraded: str) -> None:
    with closing(psycopg2.connect(upgraded)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT unit, kind FROM freshet.source_range WHERE unit = ANY (%s)", [list(KINDS)])
        assert dict(cursor.fetchall()) == KINDS


def test_held_tuples_have_fates_that_are_known(upgraded: str) -> None:
    with closing(psycopg2.connect(upgraded)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT fate, place FROM freshet.held_tuple")
        assert dict(cursor.fetchall()) == {
            fate.name: fate.place for fate in FATES.values() if fate.place in {"shed", "unmatched", "rejected"}
        }


@pytest.mark.parametrize("pipeline", ARRIVED)
def test_what_it_has_loaded_is_proved(
    upgraded: str, home: Path, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    proof = verify(load_definitions()[pipeline], upgraded, Home(home))
    assert proof.holds, proof
    assert proof.records - proof.duplicates == ARRIVED[pipeline]
    assert (proof.pending_records, proof.former, proof.unprovable, proof.gone_facts) == (0, 0, 0, 0)
