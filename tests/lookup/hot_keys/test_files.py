"""Files of hot tuples: what is written comes back, what is damaged is refused, and no writer disturbs another."""

import datetime
import multiprocessing
import os
import resource
import signal
import stat
import sys
import time
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles, HotSetVersion
from spark_jobs.lookup.lookup_folder import LookupFolder, lookup_folder, remove_unused
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.settings import Home

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
KEYS = {
    "bigint": ([pa.array([3, -(2**63), 2**63 - 1])], [KeyKind.INTEGER]),
    "date": ([pa.array([0, -(2**31), 2**31 - 1], pa.int32()).view(pa.date32())], [KeyKind.DATE]),
    "text": ([pa.array(["", "a", "größer"])], [KeyKind.TEXT]),
    "char": ([pa.array(["a ", "b", "c   "])], [KeyKind.PADDED_TEXT]),
    "uuid": ([pa.array([f"0000000{i}-0000-0000-0000-00000000000f" for i in range(3)])], [KeyKind.UUID]),
    "composite": (
        [
            pa.array(["x", "", "z"]),
            pa.array([1, 2, -3]),
            pa.array([1, 2, 3], pa.int32()).view(pa.date32()),
            pa.array([f"0000000{i}-0000-0000-0000-00000000000f" for i in range(3)]),
        ],
        [KeyKind.TEXT, KeyKind.INTEGER, KeyKind.DATE, KeyKind.UUID],
    ),
}


def version(number: int = 1, tuples: int = 200, **changes: object) -> HotSetVersion:
    keys = KeyColumns.encode([pa.array(np.arange(tuples) * 7 + number)], [KeyKind.INTEGER])
    columns = pa.table({"city": pa.array([f"city {i}" for i in range(tuples)]), "sk": pa.array(np.arange(tuples))})
    frequencies = np.arange(tuples, dtype=np.float32) + np.float32(0.5)
    given = {"origin": "learned", "built_at": NOON, "rows": RelationRows(keys, columns), "frequencies": frequencies}
    return HotSetVersion(number, **{**given, **changes})  # type: ignore[arg-type]


def assert_equal(found: HotSetVersion | None, written: HotSetVersion) -> None:
    assert found is not None
    assert (found.origin, found.built_at, found.noticed) == (written.origin, written.built_at, written.noticed)
    keys, expected = found.rows.keys, written.rows.keys
    assert keys.kinds == expected.kinds
    assert keys.valid.all()
    np.testing.assert_array_equal(keys.codes, expected.codes)
    assert keys.encoded == expected.encoded
    assert found.rows.columns.equals(written.rows.columns)
    np.testing.assert_array_equal(found.frequencies, written.frequencies)


@pytest.fixture
def store(tmp_path: Path) -> HotSetFiles:
    return HotSetFiles(tmp_path / "hot")


def file_of(store: HotSetFiles, number: int) -> Path:
    [path] = store.folder.glob(f"hot-{number:010d}.*")
    return path


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_kind_come_back(store: HotSetFiles, kind: str) -> None:
    columns, kinds = KEYS[kind]
    fetched = pa.table({"at": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")), "raw": [b"\0", None, b""]})
    rows = RelationRows(KeyColumns.encode(columns, kinds), fetched)
    written = version(rows=rows, frequencies=np.float32([1, 2, 3]), noticed="10:20:10,14", origin="rebuilt")
    assert store.write(written) == 1
    assert_equal(store.newest(), written)


def test_no_tuples_at_all_come_back(store: HotSetFiles) -> None:
    store.write(version(tuples=0))
    assert_equal(store.newest(), version(tuples=0))


def test_a_store_without_versions_has_no_newest(store: HotSetFiles) -> None:
    assert store.newest() is None
    assert store.newest_sound() == (None, [])
    assert store.versions() == []


def test_a_version_takes_the_next_number_where_its_own_is_taken(store: HotSetFiles) -> None:
    assert [store.write(version(1)), store.write(version(1)), store.write(version(9)), store.write(version(2))] == [
        1,
        2,
        9,
        10,
    ]
    newest = store.newest(after=9)
    assert newest is not None
    assert newest.version == 10
    assert store.newest(after=10) is None


def test_the_last_three_of_each_origin_are_kept(store: HotSetFiles) -> None:
    rebuilt = store.write(version(origin="rebuilt"))
    for number in range(2, 9):
        store.write(version(number))
    assert store.versions() == [rebuilt, 6, 7, 8]
    assert store.versions("rebuilt") == [rebuilt]
    found = store.newest(origin="rebuilt")
    assert found is not None
    assert found.origin == "rebuilt"


def test_only_its_owner_can_read_a_version(store: HotSetFiles) -> None:
    store.write(version())
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in store.folder.glob("hot-*")} == {0}


def test_every_changed_byte_is_found(store: HotSetFiles) -> None:
    store.write(version(1))
    store.write(version(2, tuples=20))
    path = file_of(store, 2)
    sound = path.read_bytes()
    for offset in [*range(64), *range(64, len(sound), 37), len(sound) - 1]:
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 0x10]) + sound[offset + 1 :])
        with pytest.raises(CacheDamagedError, match=r"refused.*rebuild") as error:
            store.newest()
        assert str(path) in str(error.value)
        assert error.value.version == 2
    found, refused = store.newest_sound()
    assert_equal(found, version(1))
    assert [error.version for error in refused] == [2]
    path.write_bytes(sound)
    assert_equal(store.newest(), version(2, tuples=20))


def test_a_truncated_or_prolonged_file_is_refused(store: HotSetFiles) -> None:
    store.write(version())
    path = file_of(store, 1)
    sound = path.read_bytes()
    for size in [0, 1, 63, 64, 65, len(sound) // 2, len(sound) - 1]:
        path.write_bytes(sound[:size])
        with pytest.raises(CacheDamagedError):
            store.newest()
    path.write_bytes(sound + b"\0")
    with pytest.raises(CacheDamagedError):
        store.newest()


def test_a_version_under_another_ones_name_is_refused(store: HotSetFiles) -> None:
    store.write(version())
    file_of(store, 1).rename(store.folder / "hot-0000000008.learned")
    with pytest.raises(CacheDamagedError, match="another one's name"):
        store.newest()


def test_a_file_of_something_else_is_refused(store: HotSetFiles) -> None:
    store.write(version())
    file_of(store, 1).write_bytes(b"x" * 100)
    with pytest.raises(CacheDamagedError, match="FRESHETH"):
        store.newest()


def _write_some(folder: Path, origin: str, count: int) -> None:
    for _ in range(count):
        HotSetFiles(folder).write(version(origin=origin))


def test_two_writers_at_once_never_take_the_same_number(store: HotSetFiles) -> None:
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=_write_some, args=(store.folder, origin, 10)) for origin in ("learned", "rebuilt")
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        store.newest()  # finds whole versions only
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert max(store.versions()) == 20
    assert len(store.versions("learned")) == len(store.versions("rebuilt")) == 3
    assert store.newest_sound()[1] == []


def _write_until_killed(folder: Path) -> None:
    while True:
        HotSetFiles(folder).write(version(tuples=20_000))


def test_a_killed_writer_leaves_sound_versions_and_nothing_that_stays(store: HotSetFiles) -> None:
    context = multiprocessing.get_context("fork")
    for round_ in range(5):
        writer = context.Process(target=_write_until_killed, args=(store.folder,))
        writer.start()
        while not list(store.folder.glob("*.writing")):
            time.sleep(0)
        time.sleep(0.001 * round_)
        os.kill(writer.pid, signal.SIGKILL)  # type: ignore[arg-type]
        writer.join()
        newest, refused = store.newest_sound()
        assert refused == []
        assert newest is None or len(newest.rows) == 20_000
    store.write(version())
    assert list(store.folder.glob("*.writing")) == []


def _write_without_room(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        HotSetFiles(folder).write(version(2, tuples=5_000))
    except FreshetError as error:
        sys.exit(0 if "could not be written" in str(error) else 3)


def test_a_full_disk_leaves_the_former_version(store: HotSetFiles) -> None:
    store.write(version())
    writer = multiprocessing.get_context("fork").Process(target=_write_without_room, args=(store.folder,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert_equal(store.newest(), version())
    assert sorted(path.name for path in store.folder.iterdir()) == [".lock", "hot-0000000001.learned"]


def test_another_fetch_list_or_another_warehouse_has_a_folder_of_its_own(
    tmp_path: Path, empty_database_url: str, postgres_database: str
) -> None:
    class Customer:
        relation, on, fetch, validity = "public.customer", {"customer": "id"}, {"city": "city"}, None

    class WithName(Customer):
        fetch = {"city": "city", "name": "name"}

    folders = []
    for url in (empty_database_url, postgres_database):
        connection = psycopg2.connect(url)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE customer (id bigint PRIMARY KEY, city text, name text)")
        for lookup in (Customer, WithName, Customer):
            spec = describe_relation(connection, lookup, {"customer": pa.int64()})  # type: ignore[arg-type]
            folders.append(lookup_folder(Home(tmp_path), "orders", 0, spec, connection).path)
        connection.close()
    assert folders[0] == folders[2]
    assert folders[3] == folders[5]
    assert len(set(folders)) == 4
    assert {folder.parent for folder in folders} == {Home(tmp_path).caches("orders")}


def test_folders_of_former_definitions_go_when_nobody_has_written_there_for_a_week(tmp_path: Path) -> None:
    home = Home(tmp_path)
    used, former, recent = (home.caches("orders") / name for name in ("0-r-1", "0-r-2", "0-r-3"))
    for folder in (used, former, recent):
        HotSetFiles(folder / "hot").write(version())
    long_ago = time.time() - 8 * 86_400
    for folder in (used, former):
        for path in (folder, folder / "hot"):
            os.utime(path, (long_ago, long_ago))
    remove_unused(home, "orders", [LookupFolder(used)])
    assert sorted(path.name for path in home.caches("orders").iterdir()) == ["0-r-1", "0-r-3"]
    remove_unused(home, "never rebuilt", [])
