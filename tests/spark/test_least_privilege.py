"""The roles suffice for the work: a stream and its reprocessing as the loader, a validation as the validator."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import make_url

from spark_jobs.control.roles import LOADER, READER, grant_roles
from spark_jobs.definition import load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.ledger.status.pipeline_status import read_status
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale


def _as(role: str, url: str) -> str:
    """The URL of a session that has this role only."""
    return make_url(url).update_query_dict({"options": f"-crole={role}"}).render_as_string(hide_password=False)


@pytest.fixture
def granted(tmp_path: Path, shop_url: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(tmp_path, shop_url, spark, monkeypatch)
    shop.define()
    with closing(psycopg2.connect(shop_url)) as connection:
        assert grant_roles(connection, [load_definition(shop.path)]) == []
    return shop


def test_the_loader_loads_and_holds(granted: Shop) -> None:
    land(granted.folder, "first", (sale(n, customer=10**9 if n % 10 == 0 else n % 100 + 1) for n in range(1000)))
    definition = load_definition(granted.path)
    StreamJob(definition, granted.home, _as(LOADER, granted.url)).run(granted.spark, once=True)
    assert query(granted.url, "SELECT count(*) FROM shop.fact_sales") == [(900,)]
    assert query(granted.url, "SELECT place, count(*) FROM freshet.held_tuple GROUP BY 1") == [("unmatched", 100)]
    assert granted.verify().holds


def test_the_reader_reads_the_status(granted: Shop) -> None:
    land(granted.folder, "first", (sale(n) for n in range(100)))
    granted.load()
    with closing(psycopg2.connect(_as(READER, granted.url))) as connection:
        (status,) = read_status(connection)
    assert (status.loaded, status.state) == (100, "stopped")
