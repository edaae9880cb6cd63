"""Rebuilds of hot tuples and snapshots: beside the running stream or without one, and what becomes of damage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver.checks import check_tables
from spark_jobs.errors import FreshetError
from spark_jobs.lookup.hot_keys import lookup_watch
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles
from spark_jobs.lookup.hot_keys.rebuild import Rebuild, RebuildRequest
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.relation.read_limit import tuples_at_once
from spark_jobs.settings import PROJECT_ROOT
from tests.spark.conftest import Shop
from tests.spark.running_stream import RunningStream, running
from tests.spark.shop import land, query, sale, sales_definition
from tests.waiting import wait_for

LAST_LOOKUP = (
    "SELECT statistics -> 'lookups' -> 0 ->> 'reason', (statistics -> 'lookups' -> 0 -> 'damaged_pages')::int "
    "FROM freshet.batch WHERE facts > 0 ORDER BY batch_no DESC LIMIT 1"
)


@pytest.fixture
def live_shop(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(lookup_watch, "LEARNED_SECONDS", 0.5)
    # Not all of R fits: it is learned what is hot.
    scarce = {"notice_changes": "1s", "memory": "64KB"}
    shop.define(lookups=[sales_definition(shop.folder)["lookups"][0] | scarce])
    return shop


@pytest.fixture
def snapshot_shop(shop: Shop) -> Shop:
    shop.define(lookups=[snapshot_lookup(shop)])
    return shop


def snapshot_lookup(shop: Shop, **changes: str) -> dict[str, object]:
    without_front = {"read": "snapshot", "algorithm": "hybrid_join", "notice_changes": "1s"}
    return sales_definition(shop.folder)["lookups"][0] | without_front | changes


def rebuild(shop: Shop, *relations: str, hot_tuples: bool = True, snapshots: bool = True) -> list[str]:
    definition = load_definition(shop.path)
    job = Rebuild(
        definition,
        shop.home,
        shop.url,
        lambda connection: check_tables(connection, definition).relations,
        lambda: shop.spark,
    )
    return list(job.run(RebuildRequest(relations, hot_tuples=hot_tuples, snapshots=snapshots)))


def files(shop: Shop) -> HotSetFiles:
    [folder] = shop.home.caches("sales").glob("*/hot")
    return HotSetFiles(folder)


def snapshots(shop: Shop) -> CopyStore:
    [folder] = shop.home.caches("sales").glob("*/snapshots")
    return CopyStore(folder)


def test_the_running_stream_takes_rebuilt_hot_tuples_over(live_shop: Shop) -> None:
    shop = live_shop
    with running(shop) as stream:
        stream.heat([1, 2, 3])
        wait_for(lambda: files_of(shop), "the first learned version")
        query(shop.url, "DELETE FROM shop.customer WHERE id = 3; UPDATE shop.customer SET city = 'Ulm' WHERE id = 2")
        [line] = rebuild(shop)
        assert re.match(r"shop\.customer: version \d+ of the hot tuples: 2 tuples, [\d,]+ bytes, .*, \d+\.\d s", line)
        wait_for(lambda: stream.lives() and stream.cache("origin") == ("rebuilt",), "the version to be taken over")
        assert stream.cache("hot_tuples, rebuilt_at IS NOT NULL, refused") == (2, True, None)
        assert stream.sell([1, 2, 3]) == {1: "city 1", 2: "Ulm"}
        assert stream.last_hits() == 2


def last_lookup(stream: RunningStream) -> tuple[str, int]:
    """Of the last batch that had tuples: how R was read, and pages of its snapshot that were damaged."""
    stream.last_hits()  # waits until that batch is closed
    [row] = query(stream.shop.url, LAST_LOOKUP)
    return row


def files_of(shop: Shop) -> list[int]:
    found = [HotSetFiles(folder) for folder in shop.home.caches("sales").glob("*/hot")]
    return found[0].versions() if found else []


def test_a_corrupt_rebuilt_version_is_refused_and_the_stream_goes_on(live_shop: Shop) -> None:
    shop = live_shop
    with running(shop) as stream:
        stream.heat([1, 2])
        wait_for(lambda: files_of(shop), "the first learned version")
        damaged = files(shop).folder / "hot-0000000090.rebuilt"
        damaged.write_bytes(b"FRESHETH, half written")
        wait_for(lambda: stream.lives() and stream.cache("refused IS NOT NULL") == (True,), "the version to be refused")
        assert str(damaged) in stream.cache("refused")[0]
        assert stream.sell([1, 2]) == {1: "city 1", 2: "city 2"}
        assert stream.last_hits() == 2
        rebuild(shop)
        wait_for(lambda: stream.lives() and stream.cache("refused") == (None,), "the next version to be taken over")
        assert files(shop).newest_sound(origin="rebuilt")[0].version > 90


def test_without_a_driver_the_job_tells_what_it_rebuilt_and_the_next_driver_begins_with_it(live_shop: Shop) -> None:
    shop = live_shop
    assert rebuild(shop) == ["shop.customer: no frequencies have been recorded yet, so the hot tuples stay as they are"]
    with running(shop) as stream:
        stream.heat([5, 6])
    rebuild(shop)
    [row] = query(shop.url, "SELECT origin, hot_tuples, version, rebuilt_at = built_at FROM freshet.cache")
    assert row == ("rebuilt", 2, files(shop).versions()[-1], True)
    with running(shop) as stream:
        assert stream.sell([5, 6]) == {5: "city 5", 6: "city 6"}
        assert stream.last_hits() == 2


def test_only_what_is_asked_for_is_rebuilt(snapshot_shop: Shop) -> None:
    assert rebuild(snapshot_shop, snapshots=False) == ["shop.customer: nothing to rebuild"]
    assert len(rebuild(snapshot_shop, "shop.customer")) == 1
    with pytest.raises(FreshetError, match=r"shop\.none: no lookup .* shop\.customer"):
        rebuild(snapshot_shop, "shop.none")
    assert snapshots(snapshot_shop).versions() == [1]


def test_all_tasks_of_a_rebuild_together_keep_to_the_read_limit_and_its_age_counts_from_its_beginning(
    shop: Shop,
) -> None:
    customers, limit, most_processes = 2000, 400, 4
    shop.define(lookups=[snapshot_lookup(shop)])
    rebuild(shop)  # starts the processes
    shop.define(lookups=[snapshot_lookup(shop, read_limit=f"{limit}/s")])
    began = datetime.now(UTC)
    [line] = rebuild(shop)
    ended = datetime.now(UTC)
    assert "snapshot 2: 2,000 tuples" in line
    # The first read of a process does not wait.
    reading = timedelta(seconds=(customers - most_processes * tuples_at_once(limit / 2)) / limit)
    assert ended - began >= reading
    manifest, _ = snapshots(shop).newest_sound()
    assert manifest is not None
    assert began <= manifest.built_at <= ended - reading


def test_facts_of_a_snapshot_are_those_of_the_plain_join_with_changes_after_it(snapshot_shop: Shop) -> None:
    shop = snapshot_shop
    [line] = rebuild(shop)
    assert re.match(r"shop\.customer: snapshot 1: 2,000 tuples, [\d,]+ bytes, .* tuples/s, .* MB/s\)", line)
    with running(shop) as stream:
        assert len(stream.sell(range(1, 2001))) == 2000
        assert "read from snapshot 1" in last_lookup(stream)[0]
        assert stream.cache("snapshot_version, snapshot_at IS NOT NULL") == (1, True)
        query(
            shop.url,
            "UPDATE shop.customer SET city = 'Ulm' WHERE id % 100 = 1; DELETE FROM shop.customer WHERE id % 100 = 2;"
            "INSERT INTO shop.customer VALUES (0, 1, 'first'), (700000, 2, 'last');"
            "UPDATE shop.customer SET id = 800000 WHERE id = 3",
        )
        found = stream.sell([*range(2001), 700000, 800000])
        assert {found[1], found[101], found[1901]} == {"Ulm"}
        assert {2, 102, 3} & found.keys() == set()
        assert (found[0], found[700000], found[800000]) == ("first", "last", "city 3")
        assert len(found) == 2001 - 20 - 1 + 2
        assert "44 changed keys live" in last_lookup(stream)[0]
        rebuild(shop)
        wait_for(lambda: stream.sell([1]) and stream.cache("snapshot_version") == (2,), "the new snapshot")
        assert stream.sell([1, 2, 700000]) == {1: "Ulm", 700000: "last"}
        assert "read from snapshot 2" in last_lookup(stream)[0]
        assert "0 changed keys live" in last_lookup(stream)[0]
    assert shop.verify().holds


def test_a_lookup_reads_live_where_its_snapshot_cannot_be_relied_on_and_says_so(snapshot_shop: Shop) -> None:
    shop = snapshot_shop
    with running(shop) as stream:
        assert stream.sell([1]) == {1: "city 1"}
        assert "live: there is no snapshot yet" in last_lookup(stream)[0]
        rebuild(shop)
        wait_for(lambda: stream.sell([1]) and stream.cache("snapshot_version") == (1,), "the snapshot")
        query(shop.url, "TRUNCATE shop.customer; INSERT INTO shop.customer VALUES (1, 1, 'Ulm')")
        assert stream.sell([1, 2]) == {1: "Ulm"}
        assert "live: too much has changed since snapshot 1" in last_lookup(stream)[0]
        rebuild(shop)
        wait_for(lambda: stream.sell([1]) and stream.cache("snapshot_version") == (2,), "the next snapshot")
        query(shop.url, "ALTER TABLE shop.customer DISABLE TRIGGER USER; UPDATE shop.customer SET city = 'Bonn'")
        query(shop.url, "ALTER TABLE shop.customer ENABLE TRIGGER USER")
        wait_for(lambda: stream.sell([1]) == {1: "Bonn"}, "the gap to be noticed")
        assert "live: not all changes since snapshot 2 were noted" in last_lookup(stream)[0]


def test_damaged_pages_cost_live_reads_and_no_fact(snapshot_shop: Shop) -> None:
    shop = snapshot_shop
    rebuild(shop)
    manifest, _ = snapshots(shop).newest_sound()
    assert manifest is not None
    part = manifest.folder / manifest.parts[0]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    (manifest.folder / manifest.parts[-1]).unlink()
    with running(shop) as stream:
        assert len(stream.sell(range(1, 2001))) == 2000
        reason, damaged_pages = last_lookup(stream)
        assert "read from snapshot 1" in reason
        assert damaged_pages >= 2
    assert shop.verify().holds


@pytest.mark.parametrize(
    "algorithm",
    [
        "auto",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("cached_hybrid_join", "mesh_join", "batched_index_nested_loop")
        ),
    ],
)
def test_every_algorithm_reads_a_snapshot_of_a_composite_key(shop: Shop, algorithm: str) -> None:
    definition = sales_definition(shop.folder)
    definition["source"]["schema"] += ", article string, size int"
    article = {
        "relation": "shop.article",
        "on": {"article": "code", "size": "size"},
        "fetch": {"article_sk": "sk"},
        "algorithm": algorithm,
        "memory": "1MB",
        "read": "snapshot",
    }
    definition["lookups"].append(article)
    definition["fact"]["columns"]["article_sk"] = "article_sk"
    shop.define(definition)
    query(shop.url, "ALTER TABLE shop.fact_sales ADD article_sk bigint")
    assert any("shop.article: snapshot 1: 1,000 tuples" in line for line in rebuild(shop))
    query(shop.url, "UPDATE shop.article SET sk = -1 WHERE size = 3; DELETE FROM shop.article WHERE size = 4")
    land(
        shop.folder,
        "sales",
        (sale(number, article=f"article-{number % 101}", size=number % 12) for number in range(1, 3001)),
    )
    shop.load()
    [(reason,)] = query(shop.url, "SELECT statistics -> 'lookups' -> 1 ->> 'reason' FROM freshet.batch")
    assert "read from snapshot 1" in reason
    assert query(shop.url, "SELECT count(*) > 100 FROM shop.fact_sales WHERE article_sk = -1") == [(True,)]
    assert shop.verify().holds


def run_main(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What spark-submit runs, as a process of its own."""
    environment = os.environ | {
        "FRESHET_HOME": str(shop.home.root),
        "FRESHET_WAREHOUSE_URL": shop.url,
        "FRESHET_PIPELINES": str(Path(shop.path).parent),
    }
    command = [sys.executable, "-m", "spark_jobs.rebuild_cache", "sales", *arguments]
    return subprocess.run(command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)


def test_the_job_exits_with_a_line_for_each_cache_or_a_clear_error(snapshot_shop: Shop) -> None:
    done = run_main(snapshot_shop)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("shop.customer: snapshot 1: 2,000 tuples")
    failed = run_main(snapshot_shop, "--lookup", "shop.none")
    assert failed.returncode == 1
    assert failed.stderr.strip().startswith("FreshetError: shop.none: no lookup of pipeline sales")
    assert snapshot_shop.url not in done.stdout + done.stderr + failed.stderr
