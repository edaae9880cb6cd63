"""Cuts R into pages anew when it has grown so that pages no longer fit the memory they were planned for."""

from __future__ import annotations

import logging
from dataclasses import replace

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.lookup.hot_keys.publishing import MappedBroadcast
from spark_jobs.lookup.planning.lookup_plan import LookupPlan, OwnedPages
from spark_jobs.lookup.relation.page_cutting import cut_pages, outgrown
from spark_jobs.lookup.relation.page_index import PageIndex
from spark_jobs.lookup.relation.reading_connection import reading_connection

_log = logging.getLogger(__name__)

# R seldom grows fast; whether its pages still fit takes a millisecond or two to ask.
CHECKED_BATCHES = 4


class PageRenewal:
    """Watches over the pages of one lookup.

    Some pages are too large however R is cut: all versions of a key are on one. To find that out takes a scan of R's
    index. So each time that nothing was won by it the next question waits for twice as many batches.

    Args:
        warehouse_url: where R is.
        context: Spark, to broadcast the pages.
    """

    def __init__(self, warehouse_url: str, context: SparkContext) -> None:
        self._url = warehouse_url
        self._spark = context
        self._interval = CHECKED_BATCHES
        self._batches = 0  # since the last question

    def after_batch(self, plan: LookupPlan) -> LookupPlan:
        """The plan as it is, or with new pages in place of outgrown ones, if it is time to ask.

        The former pages can be used still: who plans with the new ones from now on retires them.

        Args:
            plan: the lookup.

        Raises:
            psycopg2.Error: R can't be read by pages any more.
            WarehouseUnavailableError: the warehouse went away and did not come back in time.
        """
        self._batches += 1
        if plan.pages is None or self._batches < self._interval:
            return plan
        self._batches = 0
        owned: OwnedPages = plan.pages.value()
        reading = reading_connection(self._url)
        index = reading.run(lambda connection: _outgrowing(connection, plan, owned.index))
        reading.close()  # it is not needed soon
        if index is None:
            return plan
        if index.page_count <= owned.index.page_count:
            self._interval *= 2
            _log.info("%s: some pages are large, however it is cut", plan.spec.relation)
            return plan
        self._interval = CHECKED_BATCHES
        _log.info("%s: %d pages instead of %d", plan.spec.relation, index.page_count, owned.index.page_count)
        value = OwnedPages(index, index.ranges(owned.ranges.parts))
        return replace(plan, pages=MappedBroadcast.publish(self._spark, plan.pages.name, plan.pages.version + 1, value))


def _outgrowing(connection: extensions.connection, plan: LookupPlan, index: PageIndex) -> PageIndex | None:
    """R cut anew, if it has outgrown its pages."""
    return cut_pages(connection, plan.spec, index.page_rows) if outgrown(connection, plan.spec, index) else None
