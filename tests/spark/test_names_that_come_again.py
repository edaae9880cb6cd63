"""`freshet load --once` by cron: what lands under a name that was loaded before is loaded, and what is not is told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale


def export(folder: Path, sales: Iterable[int]) -> None:
    """Written beside, and renamed over the last one."""
    land(folder, "export", (sale(n) for n in sales))


def facts(shop: Shop) -> list[int]:
    return [number for (number,) in query(shop.url, "SELECT sale_id FROM shop.fact_sales ORDER BY 1")]


def test_a_name_that_is_replaced_before_each_run_is_loaded_each_time(shop: Shop) -> None:
    for first in (0, 10, 20):
        export(shop.folder, range(first, first + 5))
        assert shop.verify().pending_files == 1, "what is not loaded yet is counted, under a known name, too"
        shop.load()
    assert facts(shop) == [*range(5), *range(10, 15), *range(20, 25)]
    assert shop.verify().holds


@pytest.mark.parametrize("goes", [True, False], ids=["removed and landed anew", "written to"])
def test_what_comes_between_two_runs_is_loaded(shop: Shop, goes: bool) -> None:
    path = shop.folder / "landing" / "part.json"
    land(shop.folder, "part", (sale(n) for n in range(3)))
    shop.load()
    if goes:
        path.unlink()
        land(shop.folder, "part", (sale(n) for n in range(3, 8)))
    else:
        content = path.read_bytes()
        land(shop.folder, "part", (sale(n) for n in range(3, 8)))
        path.write_bytes(content + path.read_bytes())
    shop.load()
    assert facts(shop) == list(range(8))
    assert shop.verify().holds
