"""Where all of R fits into a lookup's memory it is hot, and a key that is not in R is known to be absent."""

from __future__ import annotations

import re

from tests.spark.conftest import Shop
from tests.spark.running_stream import RunningStream, running
from tests.spark.shop import query, sales_definition
from tests.waiting import wait_for

LAST_LOOKUP = (
    "SELECT statistics -> 'lookups' -> 0 ->> 'reason', (statistics -> 'lookups' -> 0 ->> 'asked')::int "
    "FROM freshet.batch WHERE facts > 0 ORDER BY batch_no DESC LIMIT 1"
)


def last_lookup(stream: RunningStream) -> tuple[str, int | None]:
    """Of the last batch that had facts: why R was read so, and how many tuples asked for it; None: no back stage."""
    stream.last_hits()
    [row] = query(stream.shop.url, LAST_LOOKUP)
    return row


def test_all_of_r_is_hot_and_only_what_changes_is_read(shop: Shop) -> None:
    shop.define(lookups=[sales_definition(shop.folder)["lookups"][0] | {"notice_changes": "1s"}])
    with running(shop) as stream:
        assert stream.sell([1, 2000, 2001]) == {1: "city 1", 2000: "city 0"}
        reason, asked = last_lookup(stream)  # of the first batch: R was read while the driver got ready
        assert reason.startswith("all of R is hot")
        assert asked is None, "the key that is not in R was not looked for there"

        query(shop.url, "INSERT INTO shop.customer VALUES (2001, 1, 'new')")
        assert stream.sell([1, 2001]) == {1: "city 1", 2001: "new"}, "noticed or not"
        stream.change("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1; DELETE FROM shop.customer WHERE id = 2")
        assert stream.sell([1, 2, 3]) == {1: "Ulm", 3: "city 3"}
        assert last_lookup(stream)[1] is None
        assert stream.cache("hot_tuples") == (2000,)
        assert shop.verify().holds

        stream.change("ALTER TABLE shop.customer DISABLE TRIGGER USER; INSERT INTO shop.customer VALUES (2, 1, 'back')")
        assert stream.sell([1, 2]) == {1: "Ulm", 2: "back"}, "what is not noted is looked for"


def test_a_relation_that_outgrows_the_memory_is_learned(shop: Shop) -> None:
    shop.define(lookups=[sales_definition(shop.folder)["lookups"][0] | {"notice_changes": "1s"}])
    with running(shop) as stream:
        stream.heat([1])
        wait_for(lambda: stream.lives() and stream.cache("hot_tuples") == (2000,), "all of R to be hot")
        stream.change("INSERT INTO shop.customer SELECT id, id, 'more' FROM generate_series(10001, 30000) id")
        assert stream.sell([1, 2, 30000, 40000]) == {1: "city 1", 2: "city 2", 30000: "more"}
        reason, asked = last_lookup(stream)
        assert re.search("hold the most frequent|takes `memory", reason)
        assert asked is not None
        assert stream.cache("hot_tuples < 20000") == (True,)
    assert shop.verify().holds
