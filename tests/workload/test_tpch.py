from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import psycopg2
import pyarrow.parquet
import pytest

from spark_jobs.errors import WarehouseUnavailableError, WorkloadError
from spark_jobs.settings import Home
from spark_jobs.workload.tpch import MASTER_TABLES, seed, surrogate_keys
from spark_jobs.workload.tpch_files import generate_tables, generated_scales, tables_folder

SCALE = 0.01


def quietly(step: str, share: float) -> None:
    """Progress that is not looked at."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("seed_home"))


def fetch(url: str, query: str) -> list[tuple]:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_master_data_equals_the_generated_tables(warehouse_url: str, home: Home) -> None:
    seed(warehouse_url, home, SCALE, quietly)
    for table in MASTER_TABLES:
        generated = pyarrow.parquet.read_table(tables_folder(home, SCALE) / f"{table.name}.parquet")
        columns = ", ".join(generated.column_names)
        loaded = fetch(warehouse_url, f"SELECT {columns} FROM master.{table.name} ORDER BY 1")
        assert loaded == [tuple(row.values()) for row in generated.to_pylist()]


def test_surrogate_keys_are_a_shuffle_that_is_the_same_everywhere(warehouse_url: str, home: Home) -> None:
    seed(warehouse_url, home, SCALE, quietly)
    for table, key in zip(MASTER_TABLES, ("c_custkey", "p_partkey", "s_suppkey"), strict=True):
        rows = fetch(warehouse_url, f"SELECT {key}, {table.surrogate_key} FROM master.{table.name} ORDER BY 1")
        assert sorted(surrogate for _, surrogate in rows) == [business for business, _ in rows]
        assert sum(business == surrogate for business, surrogate in rows) < 0.05 * len(rows)
        assert [surrogate for _, surrogate in rows] == surrogate_keys(table, len(rows)).tolist()


def test_rows_added_later_get_the_surrogate_keys_that_follow(warehouse_url: str, home: Home) -> None:
    seed(warehouse_url, home, SCALE, quietly)
    added = fetch(
        warehouse_url,
        "INSERT INTO master.customer VALUES (1000000, DEFAULT, '', '', 1, '', 0, '', '') RETURNING customer_sk",
    )
    assert added == [(1501,)]


def test_seeding_again_changes_nothing(warehouse_url: str, home: Home) -> None:
    seed(warehouse_url, home, SCALE, quietly)
    before = fetch(warehouse_url, "SELECT xmin::text, c_custkey FROM master.customer ORDER BY 2")
    seed(warehouse_url, home, SCALE, quietly)
    assert fetch(warehouse_url, "SELECT xmin::text, c_custkey FROM master.customer ORDER BY 2") == before


def test_two_seeds_at_once_load_once(warehouse_url: str, home: Home) -> None:
    threads = [threading.Thread(target=seed, args=(warehouse_url, home, SCALE, quietly)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetch(warehouse_url, "SELECT count(*) FROM master.customer") == [(1500,)]


def test_another_scale_is_refused_before_anything_is_generated(warehouse_url: str, home: Home) -> None:
    seed(warehouse_url, home, SCALE, quietly)
    with pytest.raises(WorkloadError, match=r"holds master data of TPC-H, scale 0.01, not 0.02"):
        seed(warehouse_url, home, 0.02, quietly)
    assert generated_scales(home) == [SCALE]


def test_data_from_elsewhere_is_left_alone(warehouse_url: str, home: Home) -> None:
    fetch(warehouse_url, "INSERT INTO master.supplier VALUES (1, 1, '', '', 1, '', 0, '') RETURNING 1")
    with pytest.raises(WorkloadError, match="did not load"):
        seed(warehouse_url, home, SCALE, quietly)
    assert fetch(warehouse_url, "SELECT count(*) FROM master.customer") == [(0,)]


def test_a_database_without_tables_is_told_apart(empty_database_url: str, home: Home) -> None:
    with pytest.raises(WorkloadError, match="freshet migrate"):
        seed(empty_database_url, home, SCALE, quietly)


def test_an_unreachable_warehouse_is_told(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.workload.tpch._PATIENCE", timedelta())
    with pytest.raises(WarehouseUnavailableError):
        seed(f"postgresql:///freshet?host={tmp_path}", home, SCALE, quietly)


@pytest.mark.parametrize("scale", [0, -1, 0.0001, 1e6, float("nan")])
def test_scales_out_of_range_are_refused(home: Home, scale: float) -> None:
    with pytest.raises(WorkloadError, match="is not allowed"):
        generate_tables(home, scale, quietly)


def test_progress_ends_complete(warehouse_url: str, tmp_path: Path) -> None:
    reported: dict[str, list[float]] = {}
    seed(warehouse_url, Home(tmp_path), 0.001, lambda step, share: reported.setdefault(step, []).append(share))
    assert set(reported) >= {"TPC-H files, scale 0.001", "master.customer", "master.part", "master.supplier"}
    for shares in reported.values():
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_an_unfinished_generation_is_done_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    left = home.master_data / ".scale-0.001.unfinished"
    left.mkdir(parents=True)
    (left / "customer.parquet").write_text("torn")
    assert generated_scales(home) == []
    folder = generate_tables(home, 0.001, quietly)
    assert not left.exists()
    assert pyarrow.parquet.read_metadata(folder / "customer.parquet").num_rows == 150


def test_a_full_disk_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.workload.tpch_files.BYTES_PER_SCALE", 10**21)
    with pytest.raises(WorkloadError, match=r"needs .* GB"):
        generate_tables(Home(tmp_path), 0.001, quietly)


def test_a_generator_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.master_data.mkdir()
    (home.master_data / ".scale-0.001.unfinished").write_text("a file where the folder should be")
    with pytest.raises(WorkloadError, match=r"tpchgen-cli.* failed: .*(Error|error)"):
        generate_tables(home, 0.001, quietly)
