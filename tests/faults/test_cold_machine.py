"""A driver on a machine that has compiled nothing yet gets ready first, and then says so: that is no overload."""

from __future__ import annotations

import itertools
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.ledger.status.pipeline_status import StatusReader
from tests.faults.conftest import FaultyShop
from tests.spark.shop import land, query, sale
from tests.waiting import wait_for

TUPLES, BATCHES = 40, 8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_driver_compiles_before_it_says_that_it_is_ready_and_is_never_shown_as_overloaded(
    shop: FaultyShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.definition.write_text(shop.definition.read_text().replace("target: 5s", "target: 30s"))
    compiled = tmp_path / "compiled"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(compiled))
    numbers = itertools.count()
    states: set[str] = set()
    with closing(psycopg2.connect(shop.url)) as connection:
        status = StatusReader()

        def look() -> None:
            states.update(each.state for each in status.read(connection))

        def sell() -> None:
            first = next(numbers) * TUPLES
            now = datetime.now(UTC).isoformat()
            sales = [sale(n, sold_at=now) for n in range(first, first + TUPLES)]
            unknown, nobody = {**sales[0], "customer": 9999}, {**sales[1], "customer": None}
            land(shop.folder, f"part-{first}", [unknown, nobody, *sales[2:], b"{"])

        def is_ready() -> bool:
            look()
            return query(shop.url, "SELECT count(*) FROM freshet.driver") == [(1,)]

        def batches() -> int:
            look()
            return int(query(shop.url, "SELECT count(*) FROM freshet.batch WHERE state = 'committed'")[0][0])

        driver = shop.drive()
        wait_for(is_ready, "the driver to be ready", 600)
        before = {path.name for path in compiled.rglob("*.nbc")}
        assert before, "nothing was compiled where this test looks"
        for number in range(BATCHES):
            sell()
            wait_for(lambda number=number: batches() > number, "the next batch", 120)
        shop.drain(driver)
        assert "overloaded" not in states, "its freshness target is half a minute: not a matter of this machine's load"
        assert {path.name for path in compiled.rglob("*.nbc")} - before == set()
