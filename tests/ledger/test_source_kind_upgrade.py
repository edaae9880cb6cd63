"""Ranges that were noted before they said of which kind of source they are: their names tell it, once."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from spark_jobs.control.migration import migrate
from tests.ledger.ledger_rows import execute

TOPIC = "Wg4J+X4tT7aHygb/hMau6g"


def test_ranges_of_partitions_are_told_from_those_of_files(empty_database_url: str) -> None:
    migrate(empty_database_url, "0030")
    units = [f"t:0@{TOPIC}", f"clicks/t:12@{TOPIC}", "a.json", "sales/2026-01-01T10:30@shop.json", f"a/b/t:0@{TOPIC}"]
    with closing(psycopg2.connect(empty_database_url)) as connection:
        execute(
            connection, "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('p', '5s', '{}')"
        )
        for unit in units:
            execute(
                connection,
                "INSERT INTO freshet.source_range (pipeline, state, unit, first, last) VALUES (%s, 'loaded', %s, 0, 9)",
                *("p", unit),
            )
        migrate(empty_database_url)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT kind FROM freshet.source_range ORDER BY range_id")
            assert [kind for (kind,) in cursor] == ["kafka", "kafka", "files", "files", "files"]
