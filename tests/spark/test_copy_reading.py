"""What the driver publishes of snapshots: always under the same names, so that no worker keeps more than one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.definition import load_definition
from spark_jobs.driver.checks import check_tables
from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.changes.unnoticed import current_snapshot
from spark_jobs.lookup.hot_keys.publishing import Leases, MappedBroadcast
from spark_jobs.lookup.local_copy.build import build_copy
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.planning import copy_reading
from spark_jobs.lookup.planning.copy_reading import CopyReading
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.planning.planning import plan_lookups
from tests.spark.conftest import Shop
from tests.spark.shop import query, sales_definition


class Snapshots:
    """The shop's lookup of customers, planned batch by batch in one process, which has all that was published."""

    def __init__(self, shop: Shop, folder: Path, connection: extensions.connection) -> None:
        self._url = shop.url
        self._connection = connection
        self._store = CopyStore(folder)
        definition = load_definition(shop.path)
        relations = check_tables(connection, definition).relations
        watch_relations(connection, definition.lookups)
        spark = shop.spark
        self.leases = Leases()
        self._batches = itertools.count()
        [self._live] = plan_lookups(definition, relations, shop.url, spark, parts=2)
        self.reading = CopyReading(self._store, shop.url, spark, 2, None, self.leases)
        self.used: list[MappedBroadcast] = []

    def take(self) -> None:
        """A rebuild writes a new snapshot."""
        built_at = datetime.now(UTC)
        noticed = current_snapshot(self._connection)
        self._connection.commit()
        build_copy(
            self._store,
            self._url,
            self._live.spec,
            noticed,
            built_at,
            page_rows=50,
            parts=2,
            run=lambda task, count: [task(part) for part in range(count)],
        )

    def batch(self) -> tuple[int, int, int]:
        """Version and pages of the snapshot that a task reads, and how many keys it knows to have changed since."""
        batch_no = next(self._batches)
        read = self.read(self.plan(batch_no))
        self.leases.release(batch_no)
        return read

    def plan(self, batch_no: int) -> LookupPlan:
        """A batch is planned."""
        return self.reading.plan_for_batch(self._live, batch_no)

    def read(self, plan: LookupPlan) -> tuple[int, int, int]:
        """What a task of a batch with this plan reads, as above."""
        assert plan.pages is not None
        assert plan.copy is not None
        assert plan.copy.changed is not None
        self.used += [plan.pages, plan.copy.manifest, plan.copy.changed]
        manifest, owned = plan.copy.manifest.value(), plan.pages.value()
        assert owned.index.page_count == -(-manifest.index.page_count // (owned.index.page_rows // 50))
        return manifest.version, manifest.index.page_count, len(plan.copy.changed.value())


@pytest.fixture
def snapshots(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Snapshots]:
    monkeypatch.setattr(copy_reading, "LOOKED_FOR_SECONDS", 0.0)
    lookup: dict[str, Any] = sales_definition(shop.folder)["lookups"][0]
    shop.define(lookups=[lookup | {"read": "snapshot", "algorithm": "hybrid_join"}])
    with closing(psycopg2.connect(shop.url)) as connection:
        snapshots = Snapshots(shop, tmp_path / "snapshots", connection)
        yield snapshots
        snapshots.reading.close()


def test_a_new_snapshot_takes_the_names_of_the_former_one(shop: Shop, snapshots: Snapshots) -> None:
    for version in (1, 2, 3):
        snapshots.take()
        query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id <= %s", [version])
        assert snapshots.batch() == (version, 40 * version, version)
        query(shop.url, "UPDATE shop.customer SET city = 'Bonn ' || %s WHERE id <= %s", [version, version + 10])
        assert snapshots.batch() == (version, 40 * version, version + 10)
        first, last = 2000 * version + 1, 2000 * (version + 1)
        query(shop.url, "INSERT INTO shop.customer SELECT id, id FROM generate_series(%s, %s) id", [first, last])
    assert len({published.name for published in snapshots.used}) == 3


def test_a_batch_reads_its_snapshot_to_its_end_whatever_later_ones_are_planned_with(
    shop: Shop, snapshots: Snapshots
) -> None:
    snapshots.take()
    query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
    earlier = snapshots.plan(100)
    query(shop.url, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 2")
    snapshots.take()
    query(shop.url, "UPDATE shop.customer SET city = 'Bonn' WHERE id <= 10")
    assert snapshots.batch() == (2, 40, 10)
    assert snapshots.read(earlier) == (1, 40, 1)
    snapshots.leases.release(100)
    assert earlier.copy is not None
    assert not Path(earlier.copy.manifest.content._path).exists()
