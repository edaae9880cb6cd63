"""Reading goes on after the server was away, and gives up with a message when it stays away."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import errors, extensions, sql

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.lookup.relation.reading_connection import ReadingConnection, reading_connection
from spark_jobs.warehouse.connection import connect
from tests.loading.cutting_proxy import Cut, CuttingProxy
from tests.lookup.conftest import Open, keys_for

Execute = Callable[..., None]
ANSWER = sql.SQL("SELECT 42")


def backend(connection: extensions.connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [(process,)] = cursor.fetchall()
    return process


def test_reads_survive_a_killed_connection(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 50)")
    relation = open_relation("public.r", {"integer": "k"}, {"k": "k"})
    before = relation.read_pages(2)
    for read in (lambda: relation.read_pages(2), lambda: relation.lookup_keys(keys_for(relation, [21, 30]))):
        execute("""
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database()
        """)
        assert set(read().keys.tolist()) <= set(before.keys.tolist())


def test_each_thread_reads_through_a_connection_of_its_own(postgres_database: str) -> None:
    def process() -> int:
        return reading_connection(postgres_database).run(backend)

    with ThreadPoolExecutor(1) as other:
        processes = [process(), other.submit(process).result(), process(), other.submit(process).result()]
    assert processes[:2] == processes[2:]
    assert processes[0] != processes[1]


def test_reads_wait_for_a_server_that_is_restarted(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres").use() as server:
        reading = ReadingConnection(server.url())
        first = reading.run(backend)
        server.restart("immediate")
        assert reading.run(backend) != first

        server.stop()
        answers: list[memoryview] = []
        reader = threading.Thread(target=lambda: answers.append(reading.copy(ANSWER)))
        reader.start()
        server.start()
        reader.join()
        assert bytes(answers[0]).startswith(b"PGCOPY")


def test_a_server_that_stays_away_is_reported_with_what_to_do(tmp_path: Path) -> None:
    reading = ReadingConnection(f"postgresql://postgres@/postgres?host={tmp_path}", patience=0.2)
    with pytest.raises(WarehouseUnavailableError, match=r"(?s)could not be reached for 0 s.*Start PostgreSQL"):
        reading.copy(ANSWER)


def test_a_refused_query_is_not_tried_again(empty_database_url: str) -> None:
    reading = ReadingConnection(empty_database_url)
    calls = []

    def refused(connection: extensions.connection) -> None:
        calls.append(connection)
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 1; SELECT pg_sleep(10)")

    with pytest.raises(errors.QueryCanceled):
        reading.run(refused)
    assert len(calls) == 1
    reading.close()


def test_nothing_can_be_written_through_it(empty_database_url: str) -> None:
    def write(connection: extensions.connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (k int)")

    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
        ReadingConnection(empty_database_url).run(write)


@pytest.fixture
def tcp_url(connection: extensions.connection) -> Iterator[str]:
    """URL of a database that is reached over TCP."""
    info = connection.info
    proxy = CuttingProxy(f"{info.host}/.s.PGSQL.{info.port}", Cut.UNNOTICED)
    yield f"postgresql://{info.user}@127.0.0.1:{proxy.port}/{info.dbname}"
    proxy.close()


def silence_borne(connection: extensions.connection) -> dict[str, int]:
    """What the kernel does about a server from which nothing comes any more."""
    with socket.socket(fileno=connection.fileno()) as tcp:
        asked = {
            name: tcp.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        }
        asked["SO_KEEPALIVE"] = tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        tcp.detach()  # the connection closes it
    return asked


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no option for TCP's patience")
def test_a_server_that_is_cut_off_without_a_word_is_noticed_as_soon_as_by_loaders(tcp_url: str) -> None:
    reading = ReadingConnection(tcp_url)
    borne = reading.run(silence_borne)
    assert borne["SO_KEEPALIVE"] == 1
    assert borne["TCP_KEEPIDLE"] + borne["TCP_KEEPINTVL"] * borne["TCP_KEEPCNT"] <= 30
    assert 0 < borne["TCP_USER_TIMEOUT"] <= 30_000
    loading = connect(tcp_url)
    assert borne == silence_borne(loading)
    loading.close()
    reading.close()
