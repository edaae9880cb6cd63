"""Rejected tuples get a new try: which of them, and what the ledger says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.ledger.retention import prune
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.loading.outcome import Outcome
from spark_jobs.reprocessing.requeue import Requeued, requeue
from tests.loading.stream import Stream
from tests.reprocessing.conftest import Backlog
from tests.spark.shop import land, sale
from tests.test_cli import invoke

NO_PARTITION = "PostgreSQL refuses it: no partition (id = {})"


@pytest.fixture
def rejected(warehouse_url: str) -> Iterator[Stream]:
    """Orders 1 to 5 without a partition, orders 6 and 7 too large, and a record that could not be read."""
    orders = Stream(warehouse_url)
    groups = [orders.held([n], "rejected", NO_PARTITION.format(n)).held[0] for n in range(1, 6)]
    groups += orders.held([6, 7], "rejected", "column amount: too large").held
    malformed = orders.malformed(b"{no partition").held
    groups += [replace(group, reason="malformed: no partition in here") for group in malformed]
    orders.load(Outcome(None, groups))
    yield orders
    orders.close()


def places(stream: Stream) -> dict[str, int]:
    return dict(stream.query("SELECT place, count(*) FROM freshet.held_tuple GROUP BY place"))  # type: ignore[arg-type]


def test_tuples_of_a_reason_become_due_and_the_ledger_knows(rejected: Stream) -> None:
    rejected.query("UPDATE freshet.held_tuple SET attempts = 3, tried_at = now(), retry_at = now() + interval '1 h'")
    before = read_status(rejected.connection)[0]
    assert requeue(rejected.connection, "orders", "no partition") == Requeued(6, 0), (
        "a record that could not be read may be read by now"
    )
    assert places(rejected) == {"shed": 6, "rejected": 2}
    assert rejected.query(
        "SELECT DISTINCT attempts, tried_at, retry_at FROM freshet.held_tuple WHERE place = 'shed'"
    ) == [(0, None, None)]
    after = read_status(rejected.connection)[0]
    assert (before.shed, before.rejected, before.arrived) == (0, 8, 8)
    assert (after.shed, after.rejected, after.arrived) == (6, 2, 8)
    assert (after.requeued, after.put_off) == (6, 0), "nothing was shed"
    assert requeue(rejected.connection, "orders", "no partition") == Requeued(0, 0)
    assert rejected.query("SELECT count(*) FROM freshet.reprocessing_run") == [(1,)]


def test_what_arrived_earlier_and_what_an_open_batch_holds_stays(rejected: Stream) -> None:
    assert requeue(rejected.connection, "orders", "", datetime.now(UTC) + timedelta(minutes=1)) == Requeued(0, 0)
    rejected.query("UPDATE freshet.batch SET state = 'started'")
    assert requeue(rejected.connection, "orders", "") == Requeued(0, 0)
    rejected.query("UPDATE freshet.batch SET state = 'committed'")
    assert requeue(rejected.connection, "lines", "") == Requeued(0, 0)
    assert requeue(rejected.connection, "orders", "", datetime.now(UTC) - timedelta(minutes=1)) == Requeued(8, 0)


def test_what_arrived_at_the_end_of_the_time_or_later_stays(rejected: Stream) -> None:
    [(first,)] = rejected.query("SELECT min(arrived_at) FROM freshet.held_tuple")
    rejected.query("UPDATE freshet.held_tuple SET arrived_at = arrived_at + interval '1 h' WHERE event_id > '[5'")
    assert requeue(rejected.connection, "orders", "", until=first) == Requeued(0, 0)
    assert requeue(rejected.connection, "orders", "", until=first + timedelta(minutes=30)) == Requeued(4, 0)
    assert rejected.query("SELECT arrived_until FROM freshet.reprocessing_run") == [(first + timedelta(minutes=30),)]


def test_retention_leaves_what_was_rejected_long_ago_its_new_try(rejected: Stream) -> None:
    rejected.query("UPDATE freshet.held_tuple SET held_at = now() - interval '40 days'")
    rejected.connection.commit()
    requeue(rejected.connection, "orders", "no partition")
    rejected.connection.autocommit = True
    kept: dict[str, str | None] = {"ledger": None, "rejected": None, "unmatched": None, "shed": "30d"}
    assert prune(rejected.connection, "orders", kept) == {}
    assert prune(rejected.connection, "orders", kept | {"rejected": "30d"}) == {"rejected": 2}


def test_nobody_reads_overload_out_of_it(rejected: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", rejected.url)
    rejected.load(rejected.held([8, 9], "shed", "no time"))
    requeue(rejected.connection, "orders", "no partition")
    _, output, _ = invoke("held", "orders")
    told = [line.split()[:2] for line in output.splitlines()]
    assert sorted(told) == [["1", "requeued"], ["2", "rejected"], ["2", "shed"], ["5", "requeued"]]
    _, output, _ = invoke("status")
    told = [line.split() for line in output.splitlines()]
    counts = {words[0]: words[-1] for words in told if len(words) == 2}
    assert (counts["shed"], counts["requeued"], counts["rejected"]) == ("2", "6", "2"), output


def test_the_command_gives_a_new_try(rejected: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", rejected.url)
    status, output, _ = invoke("requeue", "orders", "--reason", "no partition", "--since", "1h")
    assert status == 0
    assert "6 rejected tuples wait to be reprocessed" in output


def test_what_was_refused_becomes_a_fact_and_what_is_wrong_is_rejected_again_for_the_same_reason(
    backlog: Backlog,
) -> None:
    backlog.ask("ALTER TABLE shop.fact_sales ADD CONSTRAINT small CHECK (sale_id < 5)")
    land(backlog.folder, "sales", [*(sale(n) for n in range(10)), sale(50, amount="9999999999.25")])
    backlog.load()
    assert backlog.places() == {"fact": 5, "rejected": 6}
    backlog.ask("ALTER TABLE shop.fact_sales DROP CONSTRAINT small")
    reason = "SELECT reason FROM freshet.rejected WHERE event_id = '[50]'"
    former = backlog.ask(reason)
    with backlog.connected() as connection:
        assert requeue(connection, "sales", "") == Requeued(6, 0)
    backlog.check_law()
    backlog.reprocess()
    assert backlog.places() == {"fact": 10, "rejected": 1}
    assert backlog.ask(reason) == former
    backlog.check_law()
