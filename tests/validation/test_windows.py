"""Which facts a validation looks at, and what becomes of the ledger."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.window import ranges_between
from tests.ledger.ledger_rows import only
from tests.validation.sales import Sales
from tests.waiting import wait_for

FILLED = {"not_null": ["colour"]}


def test_each_load_is_looked_at_once(sales: Sales) -> None:
    definition = sales.definition(FILLED, "row_conservation")
    first = sales.load(sales.sales(3))
    second = sales.load(sales.sales(4))
    report = sales.validate(definition)
    assert (report.result, report.facts) == ("passed", 7)
    assert report.scope == f"what was loaded since the last validation: 2 loads, numbers {first} to {second}"
    third = sales.load(sales.sales(2))
    later = sales.validate(definition)
    assert later.facts == 2
    assert sales.validate(definition).result == "no data"
    assert sales.validated_by() == {
        first: report.validation_id,
        second: report.validation_id,
        third: later.validation_id,
    }


def test_reprocessing_runs_are_loads_too(sales: Sales) -> None:
    run = sales.load(sales.sales(3, colour=None), run=True)
    report = sales.validate(sales.definition(FILLED, "row_conservation"))
    assert report.result == "failed"
    assert [finding.passed for finding in report.findings] == [False, True]
    assert sales.validated_by() == {run: report.validation_id}


def test_loads_at_work_and_empty_ones_are_left_out(sales: Sales) -> None:
    definition = sales.definition(FILLED, "row_conservation")
    first = sales.load(sales.sales(2))
    running = sales.load(sales.sales(5, colour=None), run=True, open_=True)
    empty = sales.load([])
    last = sales.load(sales.sales(2))
    started = sales.load(sales.sales(5, colour=None), open_=True)
    report = sales.validate(definition)
    assert (report.result, report.facts) == ("passed", 4)
    validated = sales.validated_by()
    assert [validated[load] for load in (first, last)] == [report.validation_id] * 2
    assert [validated[load] for load in (running, empty, started)] == [None] * 3
    sales.query("UPDATE freshet.reprocessing_run SET state = 'finished', facts = 5, closed_at = now()")
    assert [finding.unexpected for finding in sales.validate(definition).findings] == [5, None]


def test_failed_facts_are_looked_at_but_faulty_expectations_see_them_again(sales: Sales) -> None:
    load = sales.load(sales.sales(2, colour=None))
    typo = sales.definition({"sql": {"name": "typo", "rows": "SELECT colur FROM {facts}"}})
    assert sales.validate(typo).result == "error"
    assert sales.validated_by() == {load: None}
    failed = sales.validate(sales.definition(FILLED))
    assert failed.result == "failed"
    assert sales.validated_by() == {load: failed.validation_id}


def test_any_window_can_be_asked_for(sales: Sales) -> None:
    definition = sales.definition(FILLED, "row_conservation")
    loads = [sales.load(sales.sales(count)) for count in (1, 2, 4, 8)]
    sales.query("UPDATE freshet.batch SET closed_at = closed_at - interval '1 day' WHERE batch_no <= %s", [loads[1]])
    sales.validate(definition)
    midday = datetime.now(UTC) - timedelta(hours=12)

    def facts(**selection: object) -> int:
        report = sales.validate(definition, **selection)
        assert report.result in {"passed", "no data"}, report.message
        return report.facts

    assert facts(what="batches", first_batch=loads[1], last_batch=loads[2]) == 6
    assert facts(what="batches", last_batch=loads[0]) == 1
    assert facts(what="batches", first_batch=loads[3] + 1) == 0
    assert facts(what="loaded", loaded_from=midday) == 12
    assert facts(what="loaded", loaded_until=midday) == 3
    assert facts(what="everything") == 15


def test_everything_holds_facts_whose_loads_are_forgotten(sales: Sales) -> None:
    old = sales.load(sales.sales(3, colour=None))
    sales.query("UPDATE shop.sale SET batch_no = NULL WHERE sale_id = 1")
    sales.query("DELETE FROM freshet.batch WHERE batch_no = %s", [old])
    sales.query("INSERT INTO freshet.ledger_pruned (pipeline, batches, facts) VALUES ('sales', 1, 3)")
    sales.load(sales.sales(1))
    report = sales.check(FILLED, "row_conservation")
    assert [finding.unexpected for finding in report.findings] == [3, None]
    assert report.findings[1].passed
    assert report.facts == 4


@pytest.mark.parametrize(
    ("timed", "scope"), [(True, "facts whose at is "), (False, "the whole table, for the fact table has no column")]
)
def test_without_a_column_for_the_load_facts_are_found_by_their_time_or_all_taken(
    sales: Sales, timed: bool, scope: str
) -> None:
    sales.numbered, sales.timed = False, timed
    definition = sales.definition(FILLED, "row_conservation")
    before = sales.sales(2, at=datetime.now(UTC) - timedelta(hours=2), colour=None)
    sales.load(before, latency=timedelta(hours=2))
    assert sales.validate(definition).findings[0].unexpected == 2
    sales.load(sales.sales(5))
    report = sales.validate(definition)
    assert scope in report.scope
    assert report.findings[0].unexpected == (0 if timed else 2)
    assert report.findings[1].passed
    sales.query("DELETE FROM shop.sale")
    assert not sales.check("row_conservation").findings[0].passed


def test_a_pipeline_that_never_ran_has_no_data(sales: Sales) -> None:
    sales.query("DELETE FROM freshet.pipeline")
    report = sales.validate(sales.definition(FILLED))
    assert (report.result, report.validation_id) == ("no data", None)
    assert "the stream has never been started" in report.message


def test_two_at_once_take_turns(sales: Sales) -> None:
    definition = sales.definition(FILLED)
    sales.load(sales.sales(10))
    with ThreadPoolExecutor() as pool:
        results = [pool.submit(sales.validate, definition) for _ in range(2)]
    assert sorted(result.result().result for result in results) == ["no data", "passed"]


def test_a_validation_that_is_killed_is_made_again(sales: Sales) -> None:
    load = sales.load(sales.sales(4))
    code = (
        "import sys, pathlib; from tests.validation.sales import Sales;"
        "from spark_jobs.validation import validate; from spark_jobs.settings import Home;"
        "definition = Sales.definition(type('S', (), {'numbered': True, 'timed': True})(),"
        "  {'sql': {'name': 'slow', 'rows': 'SELECT *, pg_sleep(60) FROM {facts}'}});"
        "validate.validate_facts(definition, sys.argv[1], Home(pathlib.Path(sys.argv[2])))"
    )
    with subprocess.Popen([sys.executable, "-c", code, sales.url, str(sales.home.root)]) as process:
        at_work = "SELECT FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(60)%%' AND pid <> pg_backend_pid()"
        wait_for(lambda: process.poll() is not None or sales.query(at_work), "the validation to be at work", 120)
        process.send_signal(signal.SIGKILL)
    sales.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'freshet validate%%'"
    )
    assert sales.validated_by() == {load: None}
    assert sales.query("SELECT result FROM freshet.validation") == [("running",)]
    told = only(read_status(sales.connection)).validation
    assert told is not None
    assert (told.result, told.running_since) == ("cut off", None)
    again = sales.validate(sales.definition(FILLED))
    assert (again.result, again.facts) == ("passed", 4)
    assert sales.query("SELECT result FROM freshet.validation ORDER BY validation_id") == [("cut off",), ("passed",)]


def test_an_outage_amid_a_validation_is_no_verdict(sales: Sales) -> None:
    load = sales.load(sales.sales(4))
    cut = {"sql": {"name": "cut", "rows": "SELECT pg_terminate_backend(pg_backend_pid()) FROM {facts}"}}
    with pytest.raises(WarehouseUnavailableError, match="broke off a validation of sales"):
        sales.validate(sales.definition(cut))
    assert sales.validated_by() == {load: None}


def test_reading_writes_nothing(sales: Sales) -> None:
    sales.load(sales.sales(2))
    report = sales.check(
        {"sql": {"name": "writes", "rows": "WITH w AS (SELECT nextval('shop.n')) SELECT * FROM {facts}, w"}}
    )
    assert report.result == "error"
    sales.query("CREATE SEQUENCE shop.n")
    report = sales.check(
        {"sql": {"name": "writes", "rows": "WITH w AS (SELECT nextval('shop.n')) SELECT * FROM {facts}, w"}}
    )
    assert "read-only transaction" in report.message


@pytest.mark.parametrize(
    ("numbers", "others", "ranges"),
    [
        ([3], [], [(3, 3)]),
        ([1, 2, 9], [], [(1, 9)]),
        ([1, 2, 4, 9], [3, 10], [(1, 2), (4, 9)]),
        ([1, 5, 9], [2, 3, 7, 8], [(1, 1), (5, 5), (9, 9)]),
    ],
)
def test_ranges_hold_the_loads_and_no_others(
    numbers: list[int], others: list[int], ranges: list[tuple[int, int]]
) -> None:
    assert list(ranges_between(numbers, others)) == ranges


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"what": "batches"}, "batches: give a first or a last one"),
        ({"what": "loaded"}, "loaded: give a first or a last one"),
        ({"first_batch": 3}, "Bounds of batches don't go with 'new'"),
        ({"what": "batches", "last_batch": 3, "loaded_from": "2026-01-01"}, "Bounds of loaded don't go with 'batches'"),
    ],
)
def test_a_selection_says_what_it_means(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Selection.model_validate(fields)
    assert str(Selection(what="batches", first_batch=3)) == "batches from 3"
