"""Local copies of PostgreSQL's relations: they hold what R held, for any key; damage costs a live read and no fact."""

import multiprocessing
import resource
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import FreshetError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.lookup.changes.unnoticed import current_snapshot
from spark_jobs.lookup.local_copy.build import build_copy
from spark_jobs.lookup.local_copy.copy_files import CopyManifest
from spark_jobs.lookup.local_copy.local_copy import ChangedCopy, LocalCopy
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.relation.back_stage_join import PagesWaitedFor, make_back_stage, run_back_stage
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.read_limit import ReadLimit
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.stored_relation import RelationPart
from tests.lookup.conftest import Describe
from tests.virtual_time import VirtualTime

TABLES = """
    CREATE TABLE by_number (id bigint PRIMARY KEY, name text, price numeric(12, 2), at timestamptz);
    INSERT INTO by_number
        SELECT n * 3, nullif('name ' || n, 'name 7'), n / 8.0, timestamptz '2026-01-01' + n * interval '1 h'
        FROM generate_series(-200, 799) n;
    CREATE TABLE by_text (code text COLLATE "C" PRIMARY KEY, name varchar(20));
    INSERT INTO by_text SELECT 'größe ' || md5(n::text), n FROM generate_series(1, 500) n;
    CREATE TABLE by_uuid (id uuid PRIMARY KEY, name char(8));
    INSERT INTO by_uuid SELECT md5(n::text)::uuid, n FROM generate_series(1, 500) n;
    CREATE TABLE by_date (day date PRIMARY KEY, name text);
    INSERT INTO by_date SELECT date '2026-01-01' + n, n FROM generate_series(1, 500) n;
    INSERT INTO by_date VALUES ('infinity', 'ever'), ('-infinity', 'never');
    CREATE TABLE by_both (code text COLLATE "C", size integer, name text, PRIMARY KEY (code, size));
    INSERT INTO by_both SELECT 'code ' || n % 50, n / 50, n FROM generate_series(1, 500) n;
    CREATE TABLE empty (id bigint PRIMARY KEY, name text);
    ANALYZE;
"""
RELATIONS = {
    "by_number": ({"integer": "id"}, {"name": "name", "price": "price", "at": "at"}),
    "by_text": ({"text": "code"}, {"name": "name"}),
    "by_uuid": ({"text": "id"}, {"name": "name"}),
    "by_date": ({"date": "day"}, {"name": "name"}),
    "by_both": ({"text": "code", "integer": "size"}, {"name": "name"}),
    "empty": ({"integer": "id"}, {"name": "name"}),
}
PAGE_ROWS = 20

Take = Callable[..., tuple[LocalCopy, LiveRelation]]


class Shelf:
    """Takes copies of the relations of one database."""

    def __init__(self, folder: Path, url: str, describe: Describe, connection: object) -> None:
        self.store = CopyStore(folder / "snapshots")
        self.url = url
        self._describe = describe
        self._connection = connection

    def live(self, relation: str = "by_number", page_rows: int = PAGE_ROWS) -> LiveRelation:
        spec = self._describe(f"public.{relation}", *RELATIONS[relation])
        return LiveRelation.open(self.url, spec, page_rows)

    def take(
        self, relation: str = "by_number", parts: int = 3, limit: Callable[[], ReadLimit] | None = None
    ) -> CopyManifest:
        spec = self._describe(f"public.{relation}", *RELATIONS[relation])
        built_at = datetime.now(UTC)
        noticed = current_snapshot(self._connection)  # type: ignore[arg-type]
        return build_copy(
            self.store,
            self.url,
            spec,
            noticed,
            built_at,
            page_rows=PAGE_ROWS,
            parts=parts,
            run=lambda task, count: [task(part) for part in range(count)],
            limit=limit,
        )

    def open(self, manifest: CopyManifest, relation: str = "by_number", **options: int) -> LocalCopy:
        live = self.live(relation)
        return LocalCopy(manifest, live.spec, LiveRelation(self.url, live.spec, manifest.index), **options)


@pytest.fixture
def shelf(
    tmp_path: Path, empty_database_url: str, describe: Describe, execute: Callable[..., None], connection: object
) -> Shelf:
    execute(TABLES)
    return Shelf(tmp_path, empty_database_url, describe, connection)


def in_order(rows: RelationRows) -> tuple[list, list]:
    """Keys and fetched columns, in key order."""
    keys = rows.keys.codes if rows.keys.encoded is None else np.array(rows.keys.encoded.to_pylist(), object)
    order = np.argsort(keys)
    return keys[order].tolist(), rows.take(order).columns.to_pylist()


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_page_equals_the_page_in_postgresql(shelf: Shelf, relation: str) -> None:
    manifest = shelf.take(relation)
    for page_rows in (PAGE_ROWS, 3 * PAGE_ROWS):
        copy = shelf.open(manifest, relation, page_rows=page_rows)
        live = shelf.live(relation).with_page_rows(page_rows)
        assert copy.page_count == live.page_count
        for number in range(live.page_count):
            assert in_order(copy.read_pages(number).rows) == in_order(live.read_pages(number).rows)
        whole, expected = (each.read_pages(0, each.page_count) for each in (copy, live))
        assert in_order(whole.rows) == in_order(expected.rows)
        assert whole.rows.columns.schema == expected.rows.columns.schema
    assert copy.pages_read_live == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_key_is_found_as_in_postgresql(shelf: Shelf, relation: str) -> None:
    copy, live = shelf.open(shelf.take(relation), relation), shelf.live(relation)
    keys = live.read_pages(0, live.page_count).rows.keys
    for some in (keys, keys.take(np.arange(len(keys))[::7]), keys.take(np.repeat(np.arange(len(keys))[:1], 3))):
        assert in_order(copy.lookup_keys(some).rows) == in_order(live.lookup_keys(some).rows)
    np.testing.assert_array_equal(copy.page_of(keys), live.page_of(keys))


def test_its_parts_share_the_limit_of_what_may_be_read_and_read_no_more_than_that_at_once(shelf: Shelf) -> None:
    time, rate = VirtualTime(), 100.0
    limit = ReadLimit(rate, time.clock, time.sleep)
    assert PAGE_ROWS <= limit.tuples_at_once < 2 * PAGE_ROWS
    manifest = shelf.take(limit=lambda: limit)
    assert limit.seconds_waited == pytest.approx((manifest.row_count - PAGE_ROWS) / rate, rel=0.01)


def test_keys_that_are_not_in_r_are_not_found(shelf: Shelf) -> None:
    copy = shelf.open(shelf.take())
    keys = KeyColumns.encode([pa.array([-(2**60), 1, 2, 3, None, 2**60])], copy.spec.key_kinds)
    assert copy.lookup_keys(keys).rows.keys.codes.tolist() == [3]
    assert len(shelf.open(shelf.take("empty"), "empty").read_pages(0).keys) == 0


def test_it_is_r_as_it_was_when_it_was_made(shelf: Shelf, execute: Callable[..., None]) -> None:
    copy, live = shelf.open(shelf.take()), shelf.live()
    before = in_order(live.read_pages(0, live.page_count).rows)
    execute("UPDATE by_number SET name = 'other'; DELETE FROM by_number WHERE id < 0; INSERT INTO by_number VALUES (1)")
    assert in_order(copy.read_pages(0, copy.page_count).rows) == before


def test_tuples_that_have_changed_since_are_those_of_postgresql(shelf: Shelf, execute: Callable[..., None]) -> None:
    copy, live = shelf.open(shelf.take()), shelf.live()
    execute(
        "UPDATE by_number SET name = 'other' WHERE id IN (30, 33, 1500); DELETE FROM by_number WHERE id = 36;"
        "INSERT INTO by_number (id, name) VALUES (31, 'new'), (99999, 'last')"
    )
    changed = KeyColumns.encode([pa.array([30, 33, 36, 31, 1500, 99999, 5])], live.spec.key_kinds)
    now = ChangedCopy(copy, live, changed)
    for number in range(live.page_count):
        assert in_order(now.read_pages(number).rows) == in_order(live.read_pages(number).rows)
    whole = now.read_pages(0, live.page_count).rows
    assert in_order(whole) == in_order(live.read_pages(0, live.page_count).rows)
    keys = KeyColumns.concatenate([changed, whole.keys.take(np.arange(50))])
    assert in_order(now.lookup_keys(keys).rows) == in_order(live.lookup_keys(keys).rows)


@pytest.mark.parametrize("algorithm", ["hybrid_join", "mesh_join", "index_nested_loop", "batched_index_nested_loop"])
@pytest.mark.parametrize("relation", ["by_number", "by_both"])
def test_algorithms_join_with_it_as_with_postgresql(shelf: Shelf, relation: str, algorithm: str) -> None:
    assert algorithm in ALGORITHMS
    live = shelf.live(relation)
    known = live.read_pages(0, live.page_count).rows.keys
    wanted = np.random.default_rng(1).integers(0, len(known), 700)
    unknown = KeyColumns.encode(
        [pa.array(["none"]), pa.array([1])] if relation == "by_both" else [pa.array([1])], known.kinds
    )
    keys = KeyColumns.concatenate([known.take(wanted), unknown])
    found = []
    for r in (live, shelf.open(shelf.take(relation), relation)):
        keyed = RelationPart(r, keys, range(r.page_count))
        join = make_back_stage(algorithm, keyed, 1 << 20)
        settlement = run_back_stage(join, keys.codes, PagesWaitedFor.of(r.page_of(keys)), None)
        assert settlement.unmatched.tolist() == [700]
        assert settlement.relation is not None
        assert keys.equals(settlement.matched, settlement.relation.keys, settlement.rows).all()
        rows = settlement.relation.columns.take(pa.array(settlement.rows)).to_pylist()
        found.append(sorted(zip(settlement.matched.tolist(), map(str, rows), strict=True)))
    assert found[0] == found[1]


def damage(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x40
    path.write_bytes(content)


def test_a_damaged_page_is_read_from_postgresql(shelf: Shelf) -> None:
    manifest = shelf.take()
    live = shelf.live()
    path = manifest.folder / manifest.parts[0]
    expected = in_order(live.read_pages(0, live.page_count).rows)
    pages_of_part = int(np.count_nonzero(manifest.places.part == 0))
    for page in range(pages_of_part):
        start, size = int(manifest.places.offset[page]), int(manifest.places.size[page])
        for offset in (start, start + size // 2, start + size - 1):
            damage(path, offset)
            copy = shelf.open(manifest)
            assert in_order(copy.read_pages(0, copy.page_count).rows) == expected
            assert copy.pages_read_live == 1
            damage(path, offset)  # mends it
    assert shelf.open(manifest).read_pages(0).size > 0


def test_pages_of_a_truncated_or_vanished_part_are_read_from_postgresql(shelf: Shelf) -> None:
    manifest, live = shelf.take(), shelf.live()
    expected = in_order(live.read_pages(0, live.page_count).rows)
    first = manifest.folder / manifest.parts[0]
    first.write_bytes(first.read_bytes()[:-1])
    copy = shelf.open(manifest)
    assert in_order(copy.read_pages(0, copy.page_count).rows) == expected
    assert copy.pages_read_live == 1
    (manifest.folder / manifest.parts[1]).unlink()
    copy = shelf.open(manifest)
    keys = live.read_pages(0, live.page_count).rows.keys
    assert in_order(copy.lookup_keys(keys).rows) == expected
    assert copy.pages_read_live == 1 + int(np.count_nonzero(manifest.places.part == 1))


def test_a_version_with_a_damaged_manifest_is_refused_and_the_former_one_used(shelf: Shelf) -> None:
    former, damaged = shelf.take(), shelf.take()
    path = damaged.folder / "manifest"
    sound = path.read_bytes()
    for offset in [*range(0, 64, 5), *range(64, len(sound), 131)]:
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 1]) + sound[offset + 1 :])
        found, [error] = shelf.store.newest_sound()
        assert found is not None
        assert found.version == former.version
        assert error.version == damaged.version
        assert str(path) in str(error)
    path.unlink()
    assert shelf.store.newest_sound()[0].version == former.version  # type: ignore[union-attr]


def test_the_last_two_versions_are_kept_and_leftovers_removed(shelf: Shelf) -> None:
    for _ in range(3):
        shelf.take()
    assert shelf.store.versions() == [2, 3]
    leftover = shelf.store.folder / "building"
    leftover.mkdir()
    (leftover / "part-00000-00000000").write_bytes(b"half a page")
    shelf.take()
    assert sorted(path.name for path in shelf.store.folder.iterdir()) == [".lock", "0000000003", "0000000004"]


def test_two_cannot_write_at_once(shelf: Shelf) -> None:
    with shelf.store.build(0), pytest.raises(FreshetError, match="Another rebuild"):
        shelf.take()
    assert shelf.take().version == 1


def test_a_disk_without_room_is_told_before_anything_is_written(shelf: Shelf) -> None:
    needed = 2 * shutil.disk_usage(shelf.store.folder.parent).total
    with pytest.raises(FreshetError, match="Make room"), shelf.store.build(needed):
        pass


def _take_without_room(shelf: Shelf) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
    try:
        shelf.take()
    except FreshetError as error:
        sys.exit(0 if "could not be written" in str(error) else 3)


def test_a_disk_that_gets_full_leaves_the_former_version(shelf: Shelf) -> None:
    former = shelf.take()
    writer = multiprocessing.get_context("fork").Process(target=_take_without_room, args=(shelf,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    found, refused = shelf.store.newest_sound()
    assert (found.version if found else None, refused) == (former.version, [])
    assert not (shelf.store.folder / "building").exists()
