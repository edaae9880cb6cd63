"""Between two batches R's pages are cut anew once they have outgrown their memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from spark_jobs.pipeline.checks import check_tables
from spark_jobs.pipeline.definition import load_definition
from spark_jobs.pipeline.lookups.page_renewal import with_fitting_pages
from spark_jobs.pipeline.lookups.planning import plan_lookups
from tests.spark.shop import query, sales_definition, write_definition


def test_pages_that_r_has_outgrown_are_cut_anew(spark: Any, shop_url: str, tmp_path: Path) -> None:
    definition = load_definition(write_definition(tmp_path, sales_definition(tmp_path)))
    with closing(psycopg2.connect(shop_url)) as connection:
        tables = check_tables(connection, definition)
    [plan] = plan_lookups(definition, tables.relations, shop_url, spark.sparkContext, parts=2)
    assert plan.pages is not None
    former = plan.pages.value()
    assert with_fitting_pages(plan, shop_url, spark.sparkContext) is plan

    query(shop_url, "INSERT INTO shop.customer SELECT id, id, 'far' FROM generate_series(2001, 9000) id")
    renewed = with_fitting_pages(plan, shop_url, spark.sparkContext)
    assert renewed.pages is not None
    owned = renewed.pages.value()
    assert owned.index.page_count > 2 * former.index.page_count
    assert owned.ranges.boundaries[-1] == owned.index.page_count
    assert with_fitting_pages(renewed, shop_url, spark.sparkContext) is renewed
    renewed.pages.withdraw()
