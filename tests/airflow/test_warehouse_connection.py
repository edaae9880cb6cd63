"""How Airflow's code finds the warehouse."""

import asyncio
import json
from contextlib import closing

import psycopg2
import pytest
from freshet_airflow.warehouse_connection import reader_url, warehouse_url, warehouse_url_in_trigger
from psycopg2.extensions import parse_dsn

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.warehouse_users import READING, admit_users, as_user

CONNECTION = {
    "conn_type": "postgres",
    "host": "db.example",
    "port": 5433,
    "login": "loader",
    "password": "p@ss/w:rd",
    "schema": "facts",
    "extra": json.dumps({"sslmode": "require"}),
}


def test_the_connection_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", "postgresql://other/warehouse")
    monkeypatch.setenv("AIRFLOW_CONN_FRESHET_WAREHOUSE", json.dumps(CONNECTION))
    expected = {
        "host": "db.example",
        "port": "5433",
        "user": "loader",
        "password": "p@ss/w:rd",
        "dbname": "facts",
        "sslmode": "require",
    }
    assert parse_dsn(warehouse_url("freshet_warehouse")) == expected
    assert parse_dsn(asyncio.run(warehouse_url_in_trigger("freshet_warehouse"))) == expected


def test_a_unix_socket_is_reached_through_its_folder(monkeypatch: pytest.MonkeyPatch, warehouse_url: str) -> None:
    parts = parse_dsn(warehouse_url)
    given = {"conn_type": "postgres", "host": parts["host"], "login": parts["user"], "schema": parts["dbname"]}
    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", json.dumps(given))
    from freshet_airflow import warehouse_connection

    psycopg2.connect(warehouse_connection.warehouse_url("elsewhere")).close()


def test_users_of_the_embedded_server_come_without_a_password(
    monkeypatch: pytest.MonkeyPatch, warehouse_url: str
) -> None:
    """The page and its validations, as `freshet up` has Airflow connect them."""
    admit_users(warehouse_url)
    monkeypatch.setenv("AIRFLOW_CONN_FRESHET_READER", as_user(warehouse_url, READING))
    assert parse_dsn(reader_url()) == {**parse_dsn(warehouse_url), "user": READING}
    with closing(psycopg2.connect(reader_url())) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT session_user, count(*) FROM freshet.pipeline")
        assert cursor.fetchall() == [(READING, 0)]


def test_without_a_connection_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", "postgresql://other/warehouse")
    assert warehouse_url("freshet_warehouse") == "postgresql://other/warehouse"
    assert asyncio.run(warehouse_url_in_trigger("freshet_warehouse")) == "postgresql://other/warehouse"


def test_readers_take_the_loaders_connection_where_they_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", "postgresql://other/warehouse")
    assert reader_url() == "postgresql://other/warehouse"
    monkeypatch.setenv("AIRFLOW_CONN_FRESHET_WAREHOUSE", json.dumps(CONNECTION))
    assert parse_dsn(reader_url())["user"] == "loader"
    monkeypatch.setenv("AIRFLOW_CONN_FRESHET_READER", json.dumps({**CONNECTION, "login": "reader"}))
    assert parse_dsn(reader_url())["user"] == "reader"


def test_an_unknown_warehouse_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESHET_WAREHOUSE_URL", raising=False)
    with pytest.raises(WarehouseUnavailableError, match="Define the connection freshet_warehouse"):
        warehouse_url("freshet_warehouse")
