"""Changes of master data reach the facts while the stream runs, and never stop it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from spark_jobs.control.roles import grant_roles
from spark_jobs.definition import load_definition
from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.hot_keys import relation_watch
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles
from spark_jobs.lookup.relation.relation_rows import RelationRows
from tests.spark.conftest import Shop
from tests.spark.running_stream import running
from tests.spark.shop import query, sales_definition
from tests.waiting import wait_for

HITS = "SELECT (statistics ->> 'front_stage_hits')::int FROM freshet.batch WHERE facts > 0 ORDER BY batch_no"


@pytest.fixture
def shop(shop: Shop) -> Shop:
    # Not all of R fits: it is learned what is hot.
    lookup = sales_definition(shop.folder)["lookups"][0] | {"notice_changes": "1s", "memory": "64KB"}
    shop.define(lookups=[lookup])
    return shop


def store(shop: Shop) -> HotSetFiles:
    """The files of the only front stage."""
    [folder] = (shop.home.caches("sales")).glob("*/hot")
    return HotSetFiles(folder)


def test_every_kind_of_change_reaches_the_facts_of_the_running_stream(shop: Shop) -> None:
    with running(shop) as stream:
        stream.heat([1, 2, 3, 4])
        told = ("triggers", "shop.customer", 4, True)
        wait_for(
            lambda: stream.cache("watched, relation, hot_tuples, notice_changes = '1s'") == told, "the watch to tell"
        )
        stream.change("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        assert stream.sell([1, 2]) == {1: "Ulm", 2: "city 2"}
        assert stream.last_hits() == 2, "both were in the front stage"
        stream.change("DELETE FROM shop.customer WHERE id = 2")
        assert stream.sell([1, 2]) == {1: "Ulm"}
        assert query(shop.url, "SELECT count(*) FROM freshet.unmatched") == [(1,)]
        stream.change(
            "INSERT INTO shop.customer VALUES (2, 15, 'Bonn'); UPDATE shop.customer SET id = 9003 WHERE id = 3"
        )
        assert stream.sell([2, 3, 9003]) == {2: "Bonn", 9003: "city 3"}
        stream.change(
            "UPDATE shop.customer SET city = 'Kiel'; INSERT INTO shop.customer SELECT id, id, 'Jena' "
            "FROM generate_series(20000, 31000) id"
        )
        assert stream.sell([1, 4]) == {1: "Kiel", 4: "Kiel"}
        stream.change("TRUNCATE shop.customer")
        assert stream.sell([1, 4]) == {}


def test_a_relation_without_triggers_is_read_again(shop: Shop) -> None:
    query(shop.url, "CREATE MATERIALIZED VIEW shop.member AS SELECT * FROM shop.customer")
    query(shop.url, "CREATE UNIQUE INDEX ON shop.member (id)")
    lookup = sales_definition(shop.folder)["lookups"][0] | {"relation": "shop.member", "notice_changes": "500ms"}
    shop.define(lookups=[lookup])
    with running(shop) as stream:
        stream.heat([1, 2])
        assert stream.cache("watched") == ("rereading",)
        query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1; DELETE FROM shop.customer WHERE id = 2")
        stream.change("REFRESH MATERIALIZED VIEW shop.member")
        assert stream.sell([1, 2]) == {1: "Ulm"}


def test_a_driver_that_may_not_create_triggers_reads_again_until_somebody_else_has(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_watch, "TRIGGERS_CHECKED_SECONDS", 0.5)
    owner = shop.url
    with closing(psycopg2.connect(owner)) as connection:
        grant_roles(connection, [load_definition(shop.path)])
    query(owner, "CREATE ROLE etl LOGIN IN ROLE freshet_loader")
    try:
        shop.url = make_url(owner).set(username="etl").render_as_string(hide_password=False)
        with running(shop) as stream:
            stream.heat([1])
            assert stream.cache("watched") == ("rereading",)
            query(owner, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
            stream.await_noticed()
            assert stream.sell([1]) == {1: "Ulm"}
            install(owner, shop.path)
            wait_for(lambda: stream.cache("watched") == ("triggers",), "the triggers to be found")
            query(owner, "UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
            stream.await_noticed()
            assert stream.sell([1]) == {1: "Bonn"}
    finally:
        query(owner, "DROP OWNED BY etl; DROP ROLE etl")


def install(url: str, definition: Path) -> None:
    """What `freshet migrate` does."""
    with closing(psycopg2.connect(url)) as connection:
        outcomes = watch_relations(connection, load_definition(definition).lookups)
    assert [outcome.refusal for outcome in outcomes.values()] == [None]


def test_changes_during_an_outage_are_noticed_afterwards(shop: Shop) -> None:
    with running(shop) as stream:
        stream.heat([1, 2])
        query(
            shop.url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        stream.change("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        assert stream.sell([1, 2]) == {1: "Ulm", 2: "city 2"}


def test_a_cache_folder_that_can_not_be_read_keeps_no_change_from_being_noticed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = 0

    def refuse(store: HotSetFiles, after: int = 0, origin: str | None = None) -> None:
        nonlocal failures
        failures += 1
        raise PermissionError(f"Permission denied: {store.folder}")

    with running(shop) as stream:
        stream.heat([1, 2])
        monkeypatch.setattr(HotSetFiles, "newest", refuse)
        wait_for(lambda: failures > 2, "the folder to be looked at")
        stream.change("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        assert stream.sell([1, 2]) == {1: "Ulm", 2: "city 2"}
        monkeypatch.undo()
    assert len([record for record in caplog.records if "rebuilt cache" in record.message and record.exc_info]) == 1


def test_a_driver_begins_with_what_the_former_one_learned_as_it_is_now(shop: Shop) -> None:
    with running(shop) as stream:
        stream.heat([1, 2, 3])
    query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1; DELETE FROM shop.customer WHERE id = 2")
    with running(shop) as stream:
        assert stream.sell([1, 3, 3]) == {1: "Ulm", 3: "city 3"}
        assert stream.last_hits() == 3
        stream.await_noticed()
        assert stream.cache("origin, version, hot_tuples") == ("learned", 1, 2)
        assert stream.sell([2]) == {}


def test_a_driver_begins_with_the_newest_sound_version(shop: Shop) -> None:
    with running(shop) as stream:
        stream.heat([1, 2])
    files = store(shop)
    learned = files.newest()
    assert learned is not None
    damaged = damage(files, files.write(learned))
    with running(shop) as stream:
        stream.sell([1, 2])
        assert stream.last_hits() == 2
        stream.await_noticed()
        assert stream.cache("version") == (1,)
        assert damaged.name in str(stream.cache("refused"))


def damage(files: HotSetFiles, version: int) -> Path:
    """Cut a version's file short."""
    [path] = files.folder.glob(f"hot-{version:010d}.*")
    path.write_bytes(path.read_bytes()[:-10])
    return path


def write_damaged(files: HotSetFiles) -> Path:
    """A rebuilt version that is cut short from the first: the stream may look at any moment."""
    newest = files.versions()[-1]
    [sound] = files.folder.glob(f"hot-{newest:010d}.*")
    hidden, path = files.folder / ".damaged", files.folder / f"hot-{newest + 1:010d}.rebuilt"
    hidden.write_bytes(sound.read_bytes()[:-10])
    return hidden.rename(path)


def test_a_rebuilt_version_is_taken_over_as_r_is_now_and_a_damaged_one_refused(shop: Shop) -> None:
    with running(shop) as stream:
        stream.heat([1, 2])
    files = store(shop)
    learned = files.newest()
    assert learned is not None
    rebuilt = replace(learned, origin="rebuilt", built_at=datetime.now(UTC), noticed=None)
    with running(shop) as stream:
        stream.heat([1, 2, 3])
        query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        number = files.write(rebuilt)
        wait_for(lambda: stream.cache("version, origin") == (number, "rebuilt"), "the version to be taken over")
        assert stream.cache("hot_tuples, rebuilt_at = built_at, refused") == (2, True, None)
        assert stream.sell([1, 2]) == {1: "Ulm", 2: "city 2"}
        assert stream.last_hits() == 2

        path = write_damaged(files)
        wait_for(lambda: path.name in str(stream.cache("refused")), "the damaged version to be refused")
        assert stream.cache("version, refused_at IS NULL") == (number, False)
        stream.change("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
        assert stream.sell([1, 2]) == {1: "Bonn", 2: "city 2"}

        rows = rebuilt.rows
        other = RelationRows(rows.keys, rows.columns.select(["city"]))
        files.write(replace(rebuilt, rows=other))
        wait_for(lambda: "not those of the lookup" in str(stream.cache("refused")), "other columns to be refused")

        number = files.write(rebuilt)
        wait_for(lambda: stream.cache("version, refused") == (number, None), "the sound version")
        assert stream.sell([1]) == {1: "Bonn"}
