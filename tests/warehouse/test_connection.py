"""Connecting: patience with a server that is away, none with one that refuses, and no password in any message."""

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE
from spark_jobs.warehouse import connection as connecting
from spark_jobs.warehouse.connection import address, connect

SOON = timedelta(milliseconds=200)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path_factory.mktemp("server") / "postgres")
    server.start()
    yield server
    server.stop()


def test_an_absent_server_is_given_up_after_our_patience() -> None:
    url = "postgresql://loader:geheim@127.0.0.1:1/warehouse"
    pauses: list[float] = []
    with pytest.raises(WarehouseUnavailableError) as caught:
        connect(url, patience=SOON, sleep=pauses.append)
    assert "loader@127.0.0.1:1/warehouse can't be reached" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert pauses[:3] == [0.05, 0.1, 0.2][: len(pauses)] or pauses[0] == 0.05


def test_what_waiting_can_not_mend_is_reported_at_once(postgres: EmbeddedPostgres) -> None:
    def no_sleep(_: float) -> None:
        pytest.fail("there is nothing to wait for")

    with pytest.raises(WarehouseUnavailableError, match='database "nowhere" does not exist'):
        connect(postgres.url("nowhere"), sleep=no_sleep)
    with pytest.raises(WarehouseUnavailableError, match='role "nobody" does not exist'):
        connect(postgres.url().replace("postgres@", "nobody:geheim@"), sleep=no_sleep)


@pytest.mark.parametrize(("bound", "version"), [("OLDEST", 1000), ("NEWEST", 1)], ids=["too old", "too new"])
def test_a_server_of_another_version_is_refused_in_one_sentence(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, bound: str, version: int
) -> None:
    monkeypatch.setattr(connecting, bound, version)
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, postgres.url())
    needed = f"version {connecting.OLDEST} to {connecting.NEWEST}"
    refusal = rf"runs PostgreSQL \d+\.\d+, but Freshet needs {needed}: choose another server by FRESHET_WAREHOUSE_URL"
    with pytest.raises(WarehouseUnavailableError, match=refusal):
        connect(postgres.url())
    told = CliRunner().invoke(app, ["migrate"])
    assert told.exit_code == 2
    assert re.search(refusal, told.stderr.replace("\n", " "))


@pytest.mark.parametrize("url", ["postgresql://u:geheim@host:port:x/db?what=ever", "host='a password=geheim"])
def test_an_unreadable_url_is_not_quoted(url: str) -> None:
    with pytest.raises(WarehouseUnavailableError) as caught:
        connect(url, patience=timedelta(0))
    assert "geheim" not in str(caught.value)
    assert "FRESHET_WAREHOUSE_URL" in str(caught.value)


def test_a_short_password_is_hidden_and_words_are_not() -> None:
    with pytest.raises(WarehouseUnavailableError) as caught:
        connect("host=/nowhere dbname=d password=e", patience=timedelta(0))
    assert "***" not in str(caught.value)
    assert "can't be reached" in str(caught.value)
    with pytest.raises(WarehouseUnavailableError) as caught:
        connect("host=/nowhere/geheim dbname=d password=geheim", patience=timedelta(0))
    assert "/nowhere/***" in str(caught.value)


def test_addresses_have_no_password() -> None:
    assert address("postgresql://u:geheim@h:5433/d") == "u@h:5433/d"
    assert address("host=/tmp/x dbname=d password=geheim") == "/tmp/x/d"


def test_a_server_that_comes_back_in_time_is_waited_for(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    url = own_server.url()
    own_server.stop()
    tried = threading.Event()

    def start_server_then_go_on(_: float) -> None:
        if not tried.is_set():
            tried.set()
            own_server.start()

    connection = connect(url, application_name="freshet test", sleep=start_server_then_go_on)
    assert tried.is_set()
    with connection.cursor() as cursor:
        cursor.execute("SHOW application_name")
        assert cursor.fetchone() == ("freshet test",)
    connection.close()
