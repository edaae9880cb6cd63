"""A stream that something outside its tuples keeps from loading: it keeps its batch, says so, and goes on by itself."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from spark_jobs.control.driver_requests import request_state
from spark_jobs.driver import retry_policy
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.status.driver_states import LOADING
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, read_status
from tests.spark.conftest import Shop
from tests.spark.running_stream import RunningStream, running
from tests.spark.shop import land, query, sale, sales_definition
from tests.waiting import wait_for

# A trigger that raises 53100 does what a full disk does to the server's sessions, without filling that of this machine.
FULL_DISK = """
    CREATE FUNCTION shop.full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON shop.fact_sales FOR EACH STATEMENT EXECUTE FUNCTION shop.full_disk();
"""
REFUSE_ALL = "ALTER TABLE shop.fact_sales ADD CONSTRAINT none CHECK (sale_id < 0) NOT VALID"
REFUSE_NONE = "ALTER TABLE shop.fact_sales DROP CONSTRAINT none"
WIDEN = "ALTER TABLE shop.fact_sales ALTER amount TYPE numeric(12, 2)"


def status_of(shop: Shop) -> PipelineStatus:
    with closing(psycopg2.connect(shop.url)) as connection:
        (status,) = read_status(connection)
    return status


def wait_until_blocked(stream: RunningStream, reason: str) -> None:
    def blocked() -> bool:
        status = status_of(stream.shop)
        return stream.lives() and status.state == "blocked" and reason in (status.blocked_by or "")

    wait_for(blocked, f"the stream to be blocked: {reason}")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_policy, "LONGEST_PAUSE_SECONDS", 0.5)


CAUSES = [
    (FULL_DISK, "DROP TRIGGER full_disk ON shop.fact_sales", "No space left on device [SQLSTATE 53100]", {}),
    (REFUSE_ALL, REFUSE_NONE, 'violates check constraint "none"', {}),
    ("SELECT 1", WIDEN, "column amount", {"amount": "9999999999.25"}),
]


def test_a_blocked_stream_keeps_its_batch_says_why_and_goes_on_by_itself(shop: Shop) -> None:
    shop.load()  # nothing yet; registers the pipeline, and warms Spark up
    count = "SELECT count(*) FROM shop.fact_sales"
    with running(shop) as stream:
        for number, (cause, mended, reason, changes) in enumerate(CAUSES):
            query(shop.url, cause)
            land(shop.folder, f"many-{number}", (sale(1_000 * number + n, **changes) for n in range(1_000)))
            wait_until_blocked(stream, reason)
            assert query(shop.url, count) == [(1_000 * number,)]
            query(shop.url, mended)
            loaded = [(1_000 * (number + 1),)]
            wait_for(
                lambda loaded=loaded: stream.lives() and query(shop.url, count) == loaded, "the batch to be loaded"
            )
            wait_for(lambda: status_of(shop).state in LOADING, "the stream to go on")
    assert query(shop.url, "SELECT count(*) FROM freshet.held_tuple") == [(0,)]
    assert query(shop.url, "SELECT state, count(*) FROM freshet.batch GROUP BY 1") == [("committed", len(CAUSES))]
    assert not shop.verify().differences


def test_a_blocked_stream_that_is_to_drain_ends_and_says_that_it_has_not_loaded_all(shop: Shop) -> None:
    shop.load()
    query(shop.url, REFUSE_ALL)
    stream = RunningStream(shop)
    stream.thread.start()
    land(shop.folder, "many", (sale(n) for n in range(1_000)))
    wait_until_blocked(stream, 'violates check constraint "none"')
    with closing(psycopg2.connect(shop.url)) as connection:
        request_state(connection, "sales", "draining")
    stream.thread.join(60)
    assert isinstance(stream.failed, FreshetError)
    status = status_of(shop)
    assert (status.state, status.loaded, status.rejected) == ("down", 0, 0)
    assert 'violates check constraint "none"' in (status.error or "")
    with pytest.raises(FreshetError, match="What has landed is kept"):
        shop.load()  # as `freshet load --once` does
    query(shop.url, REFUSE_NONE)
    shop.load()
    assert not shop.verify().differences


def test_a_looked_up_column_of_another_type_of_the_same_width_is_not_misread(shop: Shop) -> None:
    """As an integer, the bytes of 1000 as a real are 1,148,846,080: hot tuples and cold ones are to be read anew."""
    query(shop.url, "ALTER TABLE shop.customer ADD points integer NOT NULL DEFAULT 1000")
    query(shop.url, "ALTER TABLE shop.fact_sales ADD points double precision")
    definition = sales_definition(shop.folder)
    definition["lookups"][0]["fetch"]["points"] = "points"
    definition["fact"]["columns"]["points"] = "points"
    shop.define(definition)
    shop.load()
    stream = RunningStream(shop)
    stream.thread.start()
    try:
        stream.heat([1, 2])
        query(shop.url, "ALTER TABLE shop.customer ALTER points TYPE real")
        with pytest.raises(FreshetError, match="the stream has to be started anew"):
            stream.sell([1, 2, 3, 4])
    finally:
        with closing(psycopg2.connect(shop.url)) as connection:
            request_state(connection, "sales", "draining")
        stream.thread.join()
    shop.load()
    wrong = "SELECT count(*) FILTER (WHERE points <> 1000), count(*) FILTER (WHERE city IN ('city 3', 'city 4')) "
    assert query(shop.url, wrong + "FROM shop.fact_sales") == [(0, 2)]
    assert shop.verify().holds
