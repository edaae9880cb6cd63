"""R on real disks is made once, and holds the keys from 0 up, a page after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psycopg2
import pytest

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.real_disks import direct_relation, postgres_relation

ROWS = 1_003


def assert_counts_up(relation: NumberedRelation, page_rows: int) -> None:
    assert relation.page_count == -(-ROWS // page_rows)
    keys = np.concatenate([relation.read_page(number).keys for number in range(relation.page_count)])
    assert keys.tolist() == list(range(ROWS))
    assert relation.pages_of(np.array([0, page_rows, ROWS - 1])).tolist() == [0, 1, relation.page_count - 1]
    found = relation.lookup(np.array([7, ROWS, 500]), np.array([0, 1, 2]))
    assert sorted(found.keys.tolist()) == [7, 500]
    assert relation.read_page(0).size <= relation.page_bytes
    assert len(relation.gather([(found.rows, np.array([1, 0]))])) == 2


def test_a_direct_file_is_written_once(tmp_path: Path) -> None:
    told: list[float] = []
    relation = direct_relation(tmp_path / "bench", ROWS, 120, 100, lambda _, share: told.append(share))
    assert_counts_up(relation, 100)
    assert relation.tuple_bytes == 120
    assert told[-1] == 1.0
    [file] = (tmp_path / "bench").iterdir()
    written = file.stat().st_mtime_ns
    assert_counts_up(direct_relation(tmp_path / "bench", ROWS, 120, 50), 50)
    assert file.stat().st_mtime_ns == written


def test_a_damaged_direct_file_is_written_anew(tmp_path: Path) -> None:
    direct_relation(tmp_path, ROWS, 120, 100)
    [file] = tmp_path.iterdir()
    file.write_bytes(b"nonsense")
    assert_counts_up(direct_relation(tmp_path, ROWS, 120, 100), 100)


def test_a_table_is_filled_once(empty_database_url: str) -> None:
    assert_counts_up(postgres_relation(empty_database_url, ROWS, 120, 100), 100)
    relation = postgres_relation(empty_database_url, ROWS, 120, 50)
    assert_counts_up(relation, 50)
    assert relation.row_count == ROWS
    assert_counts_up(relation.with_page_rows(150), 150)
    with pytest.raises(ValueError, match="choose a multiple"):
        relation.with_page_rows(75)
    with psycopg2.connect(empty_database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(*) FILTER (WHERE octet_length(payload) = 112) "
                       "FROM freshet_bench.relation_1003x120")  # fmt: skip
        assert cursor.fetchone() == (ROWS, ROWS)


@pytest.mark.parametrize("tuple_bytes", [4, 9_000])
def test_tuples_that_postgres_can_not_hold_are_refused(empty_database_url: str, tuple_bytes: int) -> None:
    with pytest.raises(WorkloadError, match="allowed are 8 to 8,000"):
        postgres_relation(empty_database_url, ROWS, tuple_bytes, 100)
