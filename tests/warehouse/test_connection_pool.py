"""The connections that a process's threads share."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import STATUS_READY

from spark_jobs.warehouse.connection_pool import Borrower, ConnectionPool


def process_id(borrower: Borrower) -> int:
    with borrower.connection().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [(number,)] = cursor.fetchall()
    return int(number)


def test_who_rests_lends_its_connection_to_others_and_who_does_not_keeps_it(postgres_database: str) -> None:
    with closing(ConnectionPool(postgres_database, "test")) as pool:
        first, second = Borrower(pool), Borrower(pool)
        ids = {process_id(first), process_id(second)}
        assert len(ids) == 2
        first.rest()
        second.rest()
        assert process_id(Borrower(pool)) in ids


def test_a_transaction_that_is_left_open_is_nobody_elses(postgres_database: str) -> None:
    with closing(ConnectionPool(postgres_database, "test")) as pool:
        borrower = Borrower(pool)
        with borrower.connection().cursor() as cursor:
            cursor.execute("CREATE TABLE left_open ()")
        borrower.rest()
        with borrower.connection().cursor() as cursor:
            assert borrower.connection().status == STATUS_READY
            cursor.execute("SELECT to_regclass('left_open')")
            assert cursor.fetchall() == [(None,)]


def test_after_a_lost_connection_none_of_those_that_wait_is_used(postgres_database: str) -> None:
    with closing(ConnectionPool(postgres_database, "test")) as pool, closing(pool.take()) as killer:
        borrowers = [Borrower(pool) for _ in range(3)]
        lost = [process_id(borrower) for borrower in borrowers]
        for borrower in borrowers[1:]:
            borrower.rest()
        with killer, killer.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) AS pid", [lost])
        with pytest.raises(psycopg2.Error):
            process_id(borrowers[0])
        borrowers[0].drop()
        assert process_id(borrowers[0]) not in lost


def test_a_session_that_the_server_has_ended_is_lent_to_nobody(postgres_database: str) -> None:
    with closing(ConnectionPool(postgres_database, "test")) as pool:
        ended, other = Borrower(pool), Borrower(pool)
        number = process_id(ended)
        ended.rest()
        with closing(psycopg2.connect(postgres_database)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [number])
        assert process_id(other) != number
