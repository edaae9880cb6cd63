"""Between two batches R's pages are cut anew once they have outgrown their memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver.checks import check_tables
from spark_jobs.lookup.driven_lookups import DrivenLookups
from spark_jobs.lookup.planning import page_renewal
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.planning.page_renewal import CHECKED_BATCHES, PageRenewal
from spark_jobs.lookup.planning.planning import plan_lookups
from spark_jobs.lookup.relation.page_index import PageIndex
from spark_jobs.settings import Home
from spark_jobs.stages.reports import BatchReport
from spark_jobs.warehouse.connection_pool import ConnectionPool
from tests.spark.shop import query, sales_definition, write_definition

MORE_CUSTOMERS = "INSERT INTO shop.customer SELECT id, id, 'far' FROM generate_series(2001, 9000) id"


def plan_of(definition: dict[str, Any], folder: Path, url: str, spark: Any) -> LookupPlan:
    loaded = load_definition(write_definition(folder, definition))
    with closing(psycopg2.connect(url)) as connection:
        tables = check_tables(connection, loaded)
    [plan] = plan_lookups(loaded, tables.relations, url, spark, parts=2)
    return plan


def after_batches(renewal: PageRenewal, plan: LookupPlan, batches: int = CHECKED_BATCHES) -> LookupPlan:
    for _ in range(batches):
        plan = renewal.after_batch(plan)
    return plan


def test_pages_that_r_has_outgrown_are_cut_anew(spark: Any, shop_url: str, tmp_path: Path) -> None:
    plan = plan_of(sales_definition(tmp_path), tmp_path, shop_url, spark)
    assert plan.pages is not None
    former = plan.pages.value()
    renewal = PageRenewal(shop_url, spark)
    assert after_batches(renewal, plan) is plan

    query(shop_url, MORE_CUSTOMERS)
    renewed = after_batches(renewal, plan)
    assert renewed.pages is not None
    owned = renewed.pages.value()
    assert owned.index.page_count > 2 * former.index.page_count
    assert owned.ranges.boundaries[-1] == owned.index.page_count
    assert after_batches(renewal, renewed) is renewed
    plan.pages.withdraw()
    renewed.pages.withdraw()


def test_pages_that_are_large_however_r_is_cut_are_asked_about_less_and_less(
    spark: Any, shop_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query(
        shop_url,
        "CREATE TABLE shop.member AS SELECT *, timestamptz '2020-01-01' AS since, NULL::timestamptz AS until "
        "FROM shop.customer; CREATE UNIQUE INDEX ON shop.member (id, since)",
    )
    [lookup] = sales_definition(tmp_path)["lookups"]
    versioned = {"relation": "shop.member", "as_of": "event_time", "validity": ["since", "until"]}
    plan = plan_of(sales_definition(tmp_path, lookups=[lookup | versioned]), tmp_path, shop_url, spark)
    query(
        shop_url,
        "INSERT INTO shop.member SELECT id, sk, city, since + n * interval '1 s', since + (n + 1) * interval '1 s' "
        "FROM shop.member, generate_series(1, 9000) n WHERE id = 2000",
    )
    renewal = PageRenewal(shop_url, spark)
    plan = after_batches(renewal, plan)  # what can be cut off the last page, which this key's versions then have alone
    cuts = []
    cut = page_renewal.cut_pages

    def counted(*arguments: Any) -> PageIndex:
        cuts.append(cut(*arguments))
        return cuts[-1]

    monkeypatch.setattr(page_renewal, "cut_pages", counted)
    assert after_batches(renewal, plan, (1 + 2 + 4 + 8) * CHECKED_BATCHES) is plan
    assert len(cuts) == 4

    query(shop_url, "INSERT INTO shop.member SELECT id, id, 'far', '2020-01-01' FROM generate_series(2001, 9000) id")
    assert after_batches(renewal, plan, 15 * CHECKED_BATCHES) is plan
    renewed = after_batches(renewal, plan, CHECKED_BATCHES)
    assert renewed.pages is not None
    assert plan.pages is not None
    assert renewed.pages.value().index.page_count > plan.pages.value().index.page_count
    plan.pages.withdraw()
    renewed.pages.withdraw()


def test_a_lookup_that_cannot_be_asked_about_leaves_the_new_pages_of_the_others_in_use(
    spark: Any, shop_url: str, tmp_path: Path
) -> None:
    definition = sales_definition(tmp_path)
    definition["source"]["schema"] += ", article string, size int"
    on = {"article": "code", "size": "size"}
    article = {"relation": "shop.article", "on": on, "fetch": {"article_sk": "sk"}, "algorithm": "hybrid_join"}
    definition["lookups"].append(article)
    definition["fact"]["columns"]["article_sk"] = "article_sk"
    query(shop_url, "ALTER TABLE shop.fact_sales ADD article_sk bigint")
    loaded = load_definition(write_definition(tmp_path, definition))
    with closing(psycopg2.connect(shop_url)) as connection:
        relations = check_tables(connection, loaded).relations
    lookups = DrivenLookups(loaded, relations, Home(tmp_path), ConnectionPool(shop_url, "test"), spark, parts=2)
    query(shop_url, f"{MORE_CUSTOMERS}; ALTER TABLE shop.article RENAME code TO name")
    for number in range(1, CHECKED_BATCHES):
        lookups.plan_for_batch(number)
        lookups.learn(BatchReport([]), number)
        lookups.release(number)
    running, _ = lookups.plan_for_batch(CHECKED_BATCHES)
    with pytest.raises(psycopg2.errors.UndefinedColumn):
        lookups.learn(BatchReport([]), CHECKED_BATCHES)
    plans, _ = lookups.plan_for_batch(CHECKED_BATCHES + 1)
    assert page_counts(spark, plans)[0] > 9000 / plans[0].pages.value().index.page_rows - 1
    assert page_counts(spark, running)[0] < 0.5 * page_counts(spark, plans)[0], "its tasks still read the former ones"
    lookups.release(CHECKED_BATCHES)
    assert running[0].pages is not None
    assert not Path(running[0].pages.content._path).exists()
    assert page_counts(spark, plans)
    lookups.close()


def page_counts(spark: Any, plans: tuple[LookupPlan, ...]) -> list[int]:
    """The pages of each lookup as tasks find them, which have none in memory from before."""
    pages = [plan.pages for plan in plans]
    return spark.parallelize(pages, 1).map(lambda each: each.value().index.page_count).collect()
