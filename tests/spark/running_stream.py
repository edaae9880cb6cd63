"""The shop's stream while it runs: events land, R changes, facts follow."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg2

from spark_jobs.control.driver_requests import request_state
from spark_jobs.definition import load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.lookup.changes.staleness import STALENESS
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale
from tests.waiting import wait_for


class RunningStream:
    """A stream that runs in a thread of this process.

    Args:
        shop: its pipeline.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._numbers = itertools.count(
            1 + query(shop.url, "SELECT coalesce(max(sale_id), 0) FROM shop.fact_sales")[0][0]
        )
        self._parts = itertools.count(len(list((shop.folder / "landing").iterdir())))
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        shop = self.shop
        try:
            StreamJob(load_definition(shop.path), shop.home, shop.url).run(shop.spark, once=False, resume=True)
        except BaseException as error:
            self.failed = error

    def sell(self, customers: Sequence[int]) -> dict[int, str]:
        """Let sales to these customers happen; the cities that their facts got. The others are unmatched."""
        sales = {next(self._numbers): customer for customer in customers}
        land(self.shop.folder, f"part-{next(self._parts)}", (sale(n, customer=c) for n, c in sales.items()))
        stored = (
            "SELECT (SELECT count(*) FROM shop.fact_sales WHERE sale_id = ANY(%(ids)s)) + (SELECT count(*) "
            "FROM freshet.held_tuple WHERE event_id = ANY(SELECT '[' || id || ']' FROM unnest(%(ids)s) id))"
        )
        ids = {"ids": list(sales)}
        wait_for(
            lambda: self.lives() and query(self.shop.url, stored, ids) == [(len(sales),)], "the sales to be loaded"
        )
        facts = query(self.shop.url, "SELECT sale_id, city FROM shop.fact_sales WHERE sale_id = ANY(%(ids)s)", ids)
        return {sales[sale_id]: city for sale_id, city in facts}

    def heat(self, customers: Sequence[int]) -> None:
        """Sell until all of these customers are found in the front stage."""

        def hit() -> bool:
            self.sell(list(customers) * 3)
            return self.last_hits() == 3 * len(customers)

        wait_for(hit, "all customers to be hot")

    def last_hits(self) -> int:
        """Hits of the front stage in the last batch that had tuples."""
        last = (
            "SELECT statistics -> 'front_stage_hits' FROM freshet.batch WHERE facts > 0 ORDER BY batch_no DESC LIMIT 1"
        )
        closed = "SELECT count(*) = 0 FROM freshet.batch WHERE state = 'started'"
        wait_for(lambda: query(self.shop.url, closed) == [(True,)], "the batch to be closed")
        return int(query(self.shop.url, last)[0][0])

    def change(self, statement: str) -> None:
        """Change R, and wait until that has been noticed; no event is needed for it."""
        query(self.shop.url, statement)
        self.await_noticed()

    def await_noticed(self) -> None:
        """Wait until the front stage has taken in what was committed before this call."""
        [(now,)] = query(self.shop.url, "SELECT clock_timestamp()")
        stale = f"SELECT noticed_at > %s AND (watched = 'rereading' OR ({STALENESS}) = interval '0') FROM freshet.cache"
        wait_for(lambda: self.lives() and query(self.shop.url, stale, [now]) == [(True,)], "changes to be noticed")

    def cache(self, columns: str) -> tuple[Any, ...]:
        """Columns of the lookup's row in freshet.cache."""
        return query(self.shop.url, f"SELECT {columns} FROM freshet.cache")[0]

    def lives(self) -> bool:
        """Whether it runs; fails with its error if it has failed."""
        if self.failed is not None:
            raise self.failed
        return self.thread.is_alive()


@contextmanager
def running(shop: Shop) -> Iterator[RunningStream]:
    """Run the shop's stream; it drains at the end, and has been driven by one driver all the time."""
    [(drivers,)] = query(shop.url, "SELECT count(*) FROM freshet.driver")
    stream = RunningStream(shop)
    stream.thread.start()
    begun = "SELECT count(*) FROM freshet.driver WHERE state = 'running'"
    try:
        wait_for(lambda: stream.lives() and query(shop.url, begun) == [(1,)], "the driver")
        yield stream
    finally:
        with closing(psycopg2.connect(shop.url)) as connection:
            request_state(connection, "sales", "draining")
        stream.thread.join(60)
    assert stream.failed is None
    assert query(shop.url, "SELECT count(*) FROM freshet.driver") == [(drivers + 1,)]
