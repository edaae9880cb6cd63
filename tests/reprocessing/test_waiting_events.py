"""Which events of several streams wait to be joined: in the state, or held until the row is there that they fill in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import FreshetError, StateDamagedError
from spark_jobs.reprocessing.waiting_events import WaitingStream, waiting_events
from tests.proof import test_accumulated
from tests.proof.landed_streams import NOON, LandedStreams, order, payment
from tests.spark.shop import sales_definition


def found(shop: LandedStreams, **chosen: object) -> list[WaitingStream]:
    with closing(psycopg2.connect(shop.url, options="-c timezone=Asia/Tokyo")) as connection:
        return waiting_events(connection, shop.definition, shop.home, **chosen)


@pytest.fixture
def warehouse(clean_warehouse: str) -> Iterator[str]:
    """One without the shop's tables."""
    yield clean_warehouse
    with closing(psycopg2.connect(clean_warehouse)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS shop CASCADE")


@pytest.fixture
def shop(tmp_path: Path, warehouse: str) -> LandedStreams:
    """Three payments whose orders are not there, and an order that is not paid."""
    shop = LandedStreams(tmp_path, warehouse)
    shop.wait("orders", order(4, -30))
    shop.wait("payments", payment(14, 41, 20), payment(15, 42, 5), payment(16, 43, 10))
    return shop


def test_events_in_the_state_are_counted_and_shown_the_oldest_first(shop: LandedStreams) -> None:
    orders, payments = found(shop, samples=2)
    assert (orders.events, orders.oldest, orders.newest) == (1, NOON - timedelta(minutes=30), orders.oldest)
    assert (payments.events, payments.oldest) == (3, NOON + timedelta(minutes=5))
    assert payments.newest == NOON + timedelta(minutes=20)
    first, second = payments.samples
    assert (first.event_time, first.until) == (payments.oldest, NOON + timedelta(minutes=125))
    assert '"order_id":42' in first.record
    assert '"order_id":43' in second.record


def test_events_are_chosen_by_stream_and_text(shop: LandedStreams) -> None:
    (payments,) = found(shop, stream="payments", text='"order_id":43', samples=5)
    assert (payments.stream, payments.events, len(payments.samples)) == ("payments", 1, 1)
    with pytest.raises(FreshetError, match=r"refunds: pipeline paid has no such stream\. It has orders, payments"):
        found(shop, stream="refunds")


def test_a_state_that_is_gone_is_told_not_taken_for_empty(shop: LandedStreams) -> None:
    shutil.rmtree(shop.home.join_state("paid"))
    with pytest.raises(StateDamagedError, match="rebuild-state"):
        found(shop)


def test_before_the_first_batch_nothing_waits(tmp_path: Path, warehouse: str) -> None:
    shop = LandedStreams(tmp_path, warehouse)
    shop.execute("DELETE FROM freshet.batch")
    assert [each.events for each in found(shop, samples=1)] == [0, 0]


def test_an_event_of_a_placeholder_s_time_is_shown(shop: LandedStreams) -> None:
    """As it waits practically for ever, it is what somebody looks for."""
    far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    shop.wait("payments", payment(17, 44) | {"at": far.isoformat()})
    (payments,) = found(shop, stream="payments", text='"order_id":44', samples=1)
    assert (payments.events, payments.newest) == (1, far)
    assert payments.samples[0].until == datetime.max.replace(tzinfo=UTC)


def test_parts_wait_for_the_row_that_they_fill_in(tmp_path: Path, warehouse: str) -> None:
    shop = LandedStreams(tmp_path, warehouse, test_accumulated.TABLES, test_accumulated.DEFINITION)
    waits = "its orders part is not there yet"
    shop.hold("payments/[14]", "waiting", waits, payment(14, 40, 3))
    shop.hold("payments/[15]", "second_part", "a second part of payments for one key", payment(15, 1, 4))
    shop.execute(
        "UPDATE freshet.held_tuple SET correlation_key = '[40]', event_time = %s WHERE place = 'unmatched'", NOON
    )
    orders, payments = found(shop, samples=5)
    assert payments.samples[0].event_time.utcoffset() == timedelta(0)
    assert (orders.events, payments.events, payments.oldest) == (0, 1, NOON)
    assert payments.samples[0].until is None
    assert '"id": 14' in payments.samples[0].record
    assert found(shop, text="no such text")[1].events == 0


def test_a_pipeline_of_one_stream_is_told_what_to_use(tmp_path: Path, warehouse: str) -> None:
    shop = LandedStreams(tmp_path, warehouse)
    shop.definition = PipelineDefinition.model_validate(sales_definition(tmp_path))
    with pytest.raises(FreshetError, match=r"has one stream: its events wait for no others\. `freshet held sales`"):
        found(shop)
