"""Held tuples become facts once they can, by runs in a real Spark and a real warehouse."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg2
import pytest

from spark_jobs.control import drivers
from spark_jobs.definition import load_definition
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from tests.reprocessing.conftest import STRANGER, Backlog
from tests.spark.shop import land, sale, sales_definition

COUNTS = ("state", "taken", "facts", "shed", "unmatched", "rejected")


def attempts(backlog: Backlog) -> list[tuple[int, int]]:
    """How many tuples were tried how often."""
    return backlog.ask("SELECT attempts, count(*) FROM freshet.held_tuple GROUP BY attempts ORDER BY attempts")


def make_due(backlog: Backlog) -> None:
    """Let the pauses pass."""
    backlog.ask("UPDATE freshet.held_tuple SET retry_at = now() WHERE retry_at IS NOT NULL")


def test_shed_tuples_become_facts(backlog: Backlog) -> None:
    backlog.shed(range(1000))
    assert backlog.reprocess() == "finished"
    assert backlog.places() == {"fact": 1000}
    assert backlog.runs(*COUNTS, "due", "error") == [("finished", 1000, 1000, -1000, 0, 0, 1000, None)]
    backlog.check_law()


def test_without_anything_due_a_run_ends_before_spark_is_asked_for(backlog: Backlog) -> None:
    backlog.hold([])
    del backlog.spark
    assert backlog.reprocess() == "finished"
    assert backlog.runs("state", "due", "taken") == [("finished", 0, 0)]


def test_a_pipeline_that_was_never_loaded_has_nothing_to_reprocess(backlog: Backlog) -> None:
    assert backlog.reprocess() == "finished"
    assert backlog.runs("state") == []


def test_unmatched_tuples_become_facts_when_their_master_data_has_arrived(backlog: Backlog) -> None:
    backlog.hold(range(300))
    backlog.arrive(range(100))
    backlog.reprocess()
    assert backlog.places() == {"fact": 100, "unmatched": 200}
    assert backlog.runs(*COUNTS) == [("finished", 300, 100, 0, -100, 0)]
    backlog.check_law()


def test_the_pause_before_an_unmatched_tuple_is_tried_again_doubles(backlog: Backlog) -> None:
    backlog.hold([7])
    pauses = []
    for _ in range(3):
        backlog.reprocess()
        pauses += backlog.ask("SELECT retry_at - tried_at FROM freshet.held_tuple")
        backlog.reprocess()  # nothing is due
        make_due(backlog)
    expected = [timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=4)]
    assert [pause for (pause,) in pauses] == [pytest.approx(pause, abs=timedelta(seconds=20)) for pause in expected]
    assert [taken for (taken,) in backlog.runs("taken")] == [1, 0] * 3
    assert attempts(backlog) == [(3, 1)]


def test_all_unmatched_tuples_can_be_asked_for_and_such_a_try_does_not_count(backlog: Backlog) -> None:
    backlog.hold(range(10))
    backlog.reprocess()
    due_at = backlog.ask("SELECT event_id, retry_at FROM freshet.held_tuple ORDER BY event_id")
    backlog.reprocess(all_unmatched=True)
    assert backlog.runs("taken") == [(10,), (10,)]
    assert attempts(backlog) == [(1, 10)]
    assert backlog.ask("SELECT event_id, retry_at FROM freshet.held_tuple ORDER BY event_id") == due_at
    backlog.check_law()


def test_tuples_are_tried_before_they_are_due_when_their_relation_got_new_tuples(backlog: Backlog) -> None:
    backlog.hold(range(10))
    backlog.reprocess()
    backlog.ask("UPDATE freshet.held_tuple SET tried_at = tried_at - interval '15 s'")
    backlog.arrive(range(4))
    backlog.ask("DELETE FROM freshet.relation_change")
    backlog.reprocess()
    backlog.ask("INSERT INTO freshet.relation_change (relation, kind) VALUES ('shop.customer', 'bulk')")
    backlog.reprocess()
    backlog.reprocess()
    assert backlog.runs("taken", "facts") == [(10, 0), (0, 0), (10, 4), (0, 0)]
    backlog.check_law()


def test_a_tuple_that_is_tried_too_often_is_rejected_with_the_last_reason(backlog: Backlog) -> None:
    backlog.define(reprocessing={"most_attempts": 2})
    backlog.hold(range(5))
    for _ in range(2):
        backlog.reprocess()
        make_due(backlog)
    assert backlog.places() == {"fact": 0, "rejected": 5}
    [(reason,)] = backlog.ask("SELECT DISTINCT reason FROM freshet.held_tuple")
    told = "2 tries came to nothing; the last one: no tuple of shop.customer has the key in customer"
    assert reason == told
    assert backlog.runs(*COUNTS) == [("finished", 5, 0, 0, 0, 0), ("finished", 5, 0, 0, -5, 5)]
    backlog.check_law()


def test_a_shed_tuple_may_turn_out_to_be_unmatched_or_never_to_match(backlog: Backlog) -> None:
    backlog.shed(range(10))
    backlog.ask("DELETE FROM shop.customer WHERE id = %s", [STRANGER + 3])
    backlog.ask("UPDATE freshet.held_tuple SET payload = replace(payload, '5004', 'null') WHERE event_id = '[4]'")
    backlog.reprocess()
    assert backlog.places() == {"fact": 8, "unmatched": 1, "rejected": 1}
    assert backlog.runs(*COUNTS) == [("finished", 10, 8, -10, 1, 1)]
    assert attempts(backlog) == [(1, 2)]
    [(reason,)] = backlog.ask("SELECT reason FROM freshet.rejected")
    assert reason.startswith("a key that can never match: customer is null, ")
    # The landed record has a customer.
    assert {found.kind for found in backlog.verify().differences} == {"wrong_payload", "wrongly_rejected"}


@pytest.mark.parametrize(
    ("rule", "placed"),
    [("reject", {"fact": 0, "rejected": 10}), ({"default": {"customer_sk": -1, "city": "?"}}, {"fact": 10})],
)
def test_the_rule_for_keys_that_are_not_in_r_applies_as_in_the_stream(
    backlog: Backlog, rule: object, placed: dict[str, int]
) -> None:
    backlog.hold(range(10))
    lookup = sales_definition(backlog.folder)["lookups"][0]
    backlog.define(lookups=[lookup | {"on_unmatched": rule}])
    backlog.reprocess()
    assert backlog.places() == placed


def test_a_run_takes_only_what_it_is_asked_to(backlog: Backlog) -> None:
    backlog.shed(range(100))
    backlog.hold(range(100, 200), "strangers")
    backlog.arrive(range(100, 200))
    backlog.reprocess(places=("unmatched",), limit=30)
    assert backlog.places() == {"fact": 30, "shed": 100, "unmatched": 70}
    [(middle,)] = backlog.ask("SELECT min(arrived_at) FROM freshet.unmatched")
    backlog.reprocess(arrived_until=middle)
    assert backlog.places() == {"fact": 130, "unmatched": 70}
    backlog.reprocess(arrived_from=middle + timedelta(hours=1))
    assert backlog.runs("due", "taken") == [(30, 30), (100, 100), (0, 0)]
    backlog.check_law()


def test_tuples_of_an_open_batch_are_left_to_its_loaders(backlog: Backlog) -> None:
    backlog.shed(range(10))
    backlog.ask("UPDATE freshet.batch SET state = 'started'")
    backlog.reprocess()
    assert backlog.places() == {"fact": 0, "shed": 10}
    backlog.ask("DELETE FROM freshet.batch")  # as retention does; who is not in the ledger is closed
    backlog.reprocess()
    assert backlog.places() == {"fact": 10}


@pytest.mark.parametrize(
    ("payload", "encoding", "reason"),
    [
        ('{"sale_id":4,"cust', "json", "with the source's present schema it is malformed"),
        ('{"sale_id":400}', "json", "has another event id"),
        ('{"sale":4}', "json", "has another event id"),
        (base64.b64encode(b'{"sale_id":4,"x":"\xff"}').decode(), "base64", "holds no record of the source"),
        (base64.b64encode(b'{"sale_id":4,"x":"\xff"}').decode(), "json.base64", "it is malformed"),
        ("no base64", "json.base64", "it is malformed"),
        ("4,5004,1", "csv", "it is malformed"),
    ],
)
def test_a_payload_that_cannot_be_read_back_is_rejected_and_kept(
    backlog: Backlog, payload: str, encoding: str, reason: str
) -> None:
    backlog.shed(range(10))
    backlog.ask(
        "UPDATE freshet.held_tuple SET payload = %s, payload_encoding = %s WHERE event_id = '[4]'", [payload, encoding]
    )
    backlog.reprocess()
    assert backlog.places() == {"fact": 9, "rejected": 1}
    [(kept, told)] = backlog.ask("SELECT payload, reason FROM freshet.rejected")
    assert kept == payload
    assert reason in told
    assert backlog.runs(*COUNTS) == [("finished", 10, 9, -10, 0, 1)]


def test_records_of_every_encoding_are_read_back(backlog: Backlog) -> None:
    backlog.shed(range(4))
    coded = base64.b64encode(json.dumps(sale(1, customer=STRANGER + 1)).encode()).decode()
    objects = '{"sale_id":2,"customer":5002,"amount":"2.25","sold_at":"2026-03-01T10:00:00.123456Z"}'  # as of old
    line = "3,5003,3.25,2026-03-01T10:00:00.123456Z"  # landed as CSV before the source was JSON
    for number, payload, encoding in ((1, coded, "json.base64"), (2, objects, "json"), (3, line, "csv")):
        backlog.ask(
            "UPDATE freshet.held_tuple SET payload = %s, payload_encoding = %s WHERE event_id = %s",
            [payload, encoding, f"[{number}]"],
        )
    backlog.reprocess()
    assert backlog.places() == {"fact": 4}
    assert backlog.verify().holds


def test_what_postgres_refuses_is_rejected_with_its_words(backlog: Backlog) -> None:
    backlog.shed(range(100))
    backlog.ask("ALTER TABLE shop.fact_sales ADD CHECK (sale_id <> 42)")
    backlog.reprocess()
    assert backlog.places() == {"fact": 99, "rejected": 1}
    [(reason,)] = backlog.ask("SELECT reason FROM freshet.rejected")
    assert "violates check constraint" in reason
    backlog.check_law()


def test_a_run_yields_to_an_overloaded_stream_that_runs_unless_told_not_to(backlog: Backlog) -> None:
    backlog.shed(range(10))  # by a batch that has just been closed
    with closing(psycopg2.connect(backlog.url)) as connection:
        epoch = drivers.take_over(connection, "sales", log_file=None)
        assert backlog.reprocess(yields=True) == "yielded"
        assert backlog.reprocess(yields=False, limit=4) == "finished"
        drivers.finish(connection, "sales", epoch, "stopped")
    assert backlog.reprocess(yields=True) == "finished"
    assert backlog.runs("state", "taken") == [("yielded", 0), ("finished", 4), ("finished", 6)]
    assert "10 tuples were shed within" in backlog.runs("error")[0][0]


def test_tuples_that_become_due_while_it_runs_are_counted_among_those_to_be_done(backlog: Backlog) -> None:
    backlog.shed(range(20))
    backlog.ask("UPDATE freshet.held_tuple SET retry_at = now() + interval '1 h' WHERE event_id <> '[7]'")

    def context() -> Any:
        make_due(backlog)  # the first of them was counted by then
        return backlog.spark

    asked = ReprocessingRequest(limit=15, yields=False)
    assert ReprocessingJob(load_definition(backlog.path), backlog.url, asked, context).run().state == "finished"
    assert backlog.runs("due", "taken") == [(15, 15)]


@pytest.mark.parametrize("algorithm", ["auto", "batched_index_nested_loop", "mesh_join", "hybrid_join"])
def test_the_algorithm_of_the_request_counts_for_every_lookup(backlog: Backlog, algorithm: str) -> None:
    article = {
        "relation": "shop.article",
        "on": {"code": "code", "size": "size"},
        "fetch": {"article_sk": "sk"},
        "memory": "2MB",
    }
    definition = sales_definition(backlog.folder)
    definition["source"]["schema"] += ", code string, size int"
    definition["lookups"].append(article)
    backlog.define(definition)
    land(backlog.folder, "held", (sale(n, customer=STRANGER + n, code=f"article-{n}", size=3) for n in range(100)))
    backlog.load()
    backlog.arrive(range(100))
    backlog.reprocess(algorithm=algorithm)
    assert backlog.places() == {"fact": 100}
    [(asked, statistics)] = backlog.runs("algorithm", "statistics")
    assert asked == algorithm
    chosen = {lookup["algorithm"] for lookup in statistics["lookups"]}
    assert algorithm == "auto" or chosen == {algorithm}
    assert [lookup["asked"] for lookup in statistics["lookups"]] == [100, 100]
    backlog.check_law()


def test_latencies_of_reprocessed_facts_are_the_runs_and_not_the_streams(backlog: Backlog) -> None:
    backlog.shed(range(50))
    before = backlog.ask("SELECT event_latency FROM freshet.batch ORDER BY batch_no")
    backlog.reprocess()
    assert backlog.ask("SELECT event_latency FROM freshet.batch ORDER BY batch_no") == before
    [(latency,)] = backlog.runs("event_latency")
    assert sum(latency) == 50


def test_a_tuple_that_a_trigger_refuses_with_a_code_of_its_own_is_rejected_and_the_others_become_facts(
    backlog: Backlog,
) -> None:
    backlog.shed(range(500))
    backlog.ask(
        """
        CREATE FUNCTION shop.poison() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.sale_id = 77 THEN RAISE EXCEPTION 'poison' USING ERRCODE = 'XX999'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER poison BEFORE INSERT ON shop.fact_sales FOR EACH ROW EXECUTE FUNCTION shop.poison();
        """
    )
    backlog.reprocess()
    assert backlog.runs("state", "taken", "rejected") == [("finished", 500, 1)]
    assert backlog.places() == {"fact": 499, "rejected": 1}
    [(reason,)] = backlog.ask("SELECT reason FROM freshet.rejected")
    assert "poison [SQLSTATE XX999]" in reason
    backlog.check_law()
