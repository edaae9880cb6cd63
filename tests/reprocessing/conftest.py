"""The shop of the Spark tests, with tuples that are held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.definition import load_definition
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.run_ledger import EndState
from tests.spark.conftest import Shop, shop_url, spark
from tests.spark.shop import land, query, sale

__all__ = ["shop_url", "spark"]

STRANGER = 5_000  # the first customer that the shop does not know


class Backlog(Shop):
    """A shop whose tuples wait to be reprocessed."""

    def hold(self, numbers: Iterable[int], name: str = "held") -> None:
        """Have sales held as unmatched, each of a customer of its own, who is not known yet."""
        land(self.folder, name, (sale(n, customer=STRANGER + n) for n in numbers))
        self.load()

    def shed(self, numbers: Iterable[int], name: str = "held") -> None:
        """Have sales of known customers held as shed."""
        numbers = list(numbers)
        self.hold(numbers, name)
        self.arrive(numbers)
        self.ask("UPDATE freshet.held_tuple SET place = 'shed', fate = 'shed'")
        self.ask("UPDATE freshet.batch SET shed = unmatched, unmatched = 0")

    def arrive(self, numbers: Iterable[int]) -> None:
        """Let the customers of these sales arrive in R."""
        customers = [STRANGER + n for n in numbers]
        self.ask("INSERT INTO shop.customer SELECT id, id * 7 + 1, 'late' FROM unnest(%s) AS id", [customers])

    def reprocess(self, **request: Any) -> EndState:
        """A run in this process."""
        asked = ReprocessingRequest(**{"limit": 1_000_000, "yields": False, **request})
        return ReprocessingJob(load_definition(self.path), self.url, asked, lambda: self.spark).run().state

    def ask(self, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return query(self.url, text, parameters)

    @contextmanager
    def connected(self) -> Iterator[extensions.connection]:
        """A connection to the warehouse."""
        with closing(psycopg2.connect(self.url)) as connection:
            yield connection

    def places(self) -> dict[str, int]:
        """Tuples by place, the fact table among them."""
        held = self.ask("SELECT place, count(*) FROM freshet.held_tuple GROUP BY place")
        return dict(held) | {"fact": self.ask("SELECT count(*) FROM shop.fact_sales")[0][0]}

    def runs(self, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of the runs, oldest first."""
        return self.ask(f"SELECT {', '.join(columns)} FROM freshet.reprocessing_run ORDER BY batch_no")

    def check_law(self) -> None:
        """Each event id is in one place, and what batches and runs have counted is what is there."""
        both = "SELECT count(*) FROM freshet.held_tuple JOIN shop.fact_sales ON event_id = '[' || sale_id || ']'"
        assert self.ask(both) == [(0,)]
        counted = self.ask(
            """
            SELECT sum(facts)::int, sum(shed)::int, sum(unmatched)::int, sum(rejected)::int FROM (
                SELECT facts, shed, unmatched, rejected FROM freshet.batch
                UNION ALL SELECT facts, shed, unmatched, rejected FROM freshet.reprocessing_run
            ) AS counted
            """
        )
        places = self.places()
        assert counted == [tuple(places.get(place, 0) for place in ("fact", "shed", "unmatched", "rejected"))]
        assert self.verify().holds


@pytest.fixture
def backlog(tmp_path: Any, shop_url: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Backlog:
    backlog = Backlog(tmp_path, shop_url, spark, monkeypatch)
    backlog.define()
    return backlog
