from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.warehouse_server import warehouse
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE, Home


@pytest.fixture(autouse=True)
def no_configured_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WAREHOUSE_URL_VARIABLE, raising=False)


def test_the_embedded_warehouse_keeps_its_data_and_ends_with_its_last_user(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with warehouse(home) as url, psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (number int)")
        with warehouse(home) as same:
            assert same == url
        cursor.execute("INSERT INTO kept VALUES (1)")
    assert not (home.postgres / "postmaster.pid").exists()
    with warehouse(home) as url, psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT number FROM kept")
        assert cursor.fetchone() == (1,)


def test_no_server_is_made_only_to_look_into_it(tmp_path: Path) -> None:
    with pytest.raises(WarehouseUnavailableError, match="Run `freshet up`"), warehouse(Home(tmp_path), create=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_configured_warehouse_is_used_and_nothing_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database_url: str
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, empty_database_url)
    with warehouse(Home(tmp_path)) as url:
        assert url == empty_database_url
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@127.0.0.1:1/none", "postgresql://me:hunter2@[", "hunter2"])
def test_a_wrong_url_is_told_without_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr("spark_jobs.local.warehouse_server.PATIENCE", timedelta())
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, url)
    with pytest.raises(WarehouseUnavailableError, match="can't be reached") as raised, warehouse(Home(tmp_path)):
        pass
    assert "hunter2" not in str(raised.value)


def test_a_warehouse_without_schema_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database_url: str, warehouse_url: str
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, empty_database_url)
    with pytest.raises(WarehouseUnavailableError, match="freshet migrate"), warehouse(Home(tmp_path), create=False):
        pass
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    with warehouse(Home(tmp_path), create=False) as url:
        assert url == warehouse_url
