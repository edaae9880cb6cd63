"""Cuts R into pages anew when it has grown so that pages no longer fit the memory they were planned for."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark import SparkContext

from spark_jobs.pipeline.tasks.batch_context import LookupPlan, OwnedPages
from spark_jobs.pipeline.tasks.mapped_broadcast import MappedBroadcast
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.reading_connection import reading_connection

_log = logging.getLogger(__name__)


def with_fitting_pages(plan: LookupPlan, warehouse_url: str, context: SparkContext) -> LookupPlan:
    """The plan as it is, or with new pages in place of outgrown ones. Between two batches: no task may use them now.

    Args:
        plan: the lookup.
        warehouse_url: where R is.
        context: Spark, to broadcast the pages.
    """
    if plan.pages is None:
        return plan
    owned: OwnedPages = plan.pages.value()
    connection = reading_connection(warehouse_url)
    if not connection.run(lambda reading: owned.index.outgrown(reading, plan.spec)):
        return plan
    index = connection.run(lambda reading: PageIndex.build(reading, plan.spec, owned.index.page_rows))
    _log.info("%s: %d pages instead of %d", plan.spec.relation, index.page_count, owned.index.page_count)
    value = OwnedPages(index, index.ranges(owned.ranges.parts))
    pages = MappedBroadcast.publish(context, plan.pages.name, plan.pages.version + 1, value)
    plan.pages.withdraw()
    return replace(plan, pages=pages)
