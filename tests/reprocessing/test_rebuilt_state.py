"""A state that is made anew has taken what the lost one had taken, whatever the events would come to today."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.definition import PipelineDefinition
from spark_jobs.reprocessing.state_rebuilding import rebuild_state
from tests.proof.landed_streams import LandedStreams, at, order, payment


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_was_too_many_stays_out_and_what_was_not_stays_in(
    forgotten: bool, tmp_path: Path, warehouse_url: str
) -> None:
    shop = LandedStreams(tmp_path, warehouse_url)
    shop.land("payments", "p1.json", *(payment(number, number // 10, 1) for number in (11, 12, 21, 22)))
    shop.tell("orders", -1000, newest=at(1))
    shop.tell("payments", -1000, arrived=4, waiting=4)
    [(shop.batch_no,)] = shop.rows(
        "INSERT INTO freshet.batch (pipeline, epoch, state) VALUES ('paid', 1, 'committed') RETURNING batch_no"
    )
    shop.land("orders", "o1.json", order(1), order(2))
    shop.hold("orders/[1]", "too_many", "too many: with it there would be about 2 facts; most_facts: 1", order(1))
    if forgotten:
        shop.execute(
            "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
            "SELECT pipeline, event_id, event_hash, batch_no, place FROM freshet.held_tuple; "
            "DELETE FROM freshet.held_tuple"
        )
    shop.tell("orders", -1000, arrived=2, rejected=1, joined=1)
    shop.tell("payments", -1000, joined=2, waiting=2)
    content = shop.content | {"join": shop.content["join"] | {"most_facts": 1}}
    with closing(psycopg2.connect(shop.url)) as connection:
        rebuilt = rebuild_state(connection, PipelineDefinition.model_validate(content), shop.home, 2, print)
    assert rebuilt is not None
    assert (rebuilt.batches, rebuilt.waiting) == (2, 2)
