"""On the embedded server, too, whoever only reads or validates has no more rights than that takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import yaml
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.control.migration import migrate
from spark_jobs.local.warehouse_server import warehouse, warehouse_as
from spark_jobs.local.warehouse_users import READING, VALIDATING, admit_users
from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, WAREHOUSE_URL_VARIABLE, Home
from tests.validation.sales import Sales


@pytest.fixture
def sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sales]:
    """Three sales in the embedded warehouse of a home of their own; nobody was granted anything yet."""
    monkeypatch.delenv(WAREHOUSE_URL_VARIABLE, raising=False)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    with warehouse(Home(tmp_path / "home")) as url:
        migrate(url)
        with closing(Sales(url, tmp_path / "home")) as sales:
            sales.load(sales.sales(3))
            yield sales


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.stdout + result.stderr


def expect(sales: Sales, folder: Path, rows: str) -> tuple[int, str]:
    """What `freshet validate` says of an expectation in SQL."""
    definition = sales.definition({"sql": {"name": "mine", "rows": rows}})
    content = definition.model_dump(mode="json", by_alias=True, exclude_unset=True)
    (folder / "sales.yaml").write_text(yaml.safe_dump(content))
    return invoke("validate", "sales", "--all")


def test_an_expectation_has_the_rights_of_the_validator_and_no_way_to_more(sales: Sales, tmp_path: Path) -> None:
    assert expect(sales, tmp_path, "SELECT * FROM {facts} WHERE price < 0")[0] == 0
    status, told = expect(sales, tmp_path, "SELECT session_user AS who FROM {facts} WHERE current_user = session_user")
    assert status == 1
    assert f"who {VALIDATING}" in told
    for rows in (
        "SELECT pg_read_file('/etc/passwd') FROM {facts}",
        "SELECT set_config('role', 'postgres', false) FROM {facts}",
        "SELECT set_config('session_authorization', 'postgres', false) FROM {facts}",
    ):
        status, told = expect(sales, tmp_path, rows)
        assert status not in (0, 1), told
        assert "permission denied" in told, told


def test_status_and_metrics_come_as_a_reader(sales: Sales) -> None:
    status, told = invoke("status", "--json")
    assert status == 0
    assert '"loaded": 3' in told
    with warehouse_as(READING, sales.home) as url, closing(psycopg2.connect(url)) as connection:
        for refused in (
            "SELECT * FROM shop.sale",
            "DELETE FROM freshet.batch",
            "SELECT former FROM freshet.relation_change",
        ):
            with connection, connection.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(refused)


def test_users_that_are_there_are_left_as_they_are(sales: Sales) -> None:
    admit_users(sales.url)
    rights = "SELECT oid, relname, relacl, xmin::text FROM pg_class WHERE relacl IS NOT NULL ORDER BY 1"
    before = sales.query(rights)
    admit_users(sales.url)
    assert sales.query(rights) == before
