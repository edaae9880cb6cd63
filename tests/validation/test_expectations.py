"""Each expectation passes for sound facts, and fails with the right counts, examples and words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.validation.sales import Sales

# Expectation, the values of three facts that break it, and what is said about them.
CASES: list[tuple[Any, dict[str, Any], str]] = [
    ({"not_null": ["colour"]}, {"colour": None}, "colour is not null"),
    ({"between": {"column": "price", "min": 0, "max": 10}}, {"price": 10.5}, "price is between 0 and 10"),
    ({"between": {"column": "price", "min": 0.5}}, {"price": 0.49}, "price is at least 0.5"),
    ({"between": {"column": "day", "max": "2026-12-31"}}, {"day": "2027-01-01"}, "day is at most 2026-12-31"),
    (
        {"between": {"column": "at", "min": "2026-01-01T00:00:00Z"}},
        {"at": "2025-12-31 23:59:59.999999+00"},
        "at is at least 2026-01-01 00:00:00+00:00",
    ),
    ({"in_set": {"column": "colour", "values": ["green", "red"]}}, {"colour": "blue"}, "colour is one of green, red"),
    ({"in_set": {"column": "price", "values": [1, 2]}}, {"price": 3}, "price is one of 1, 2"),
    ({"matches": {"column": "till", "regex": "^till [0-9]+$"}}, {"till": "counter"}, "till matches ^till [0-9]+$"),
    (
        {"references": {"column": "article_sk", "relation": "shop.article", "key": "article_sk"}},
        {"article_sk": 101},
        "article_sk is in shop.article (article_sk)",
    ),
    (
        {"sql": {"name": "till 9 sells nothing", "rows": "SELECT sale_id, till FROM {facts} WHERE till = 'till 9'"}},
        {"till": "till 9"},
        "till 9 sells nothing",
    ),
]


@pytest.mark.parametrize(("expectation", "broken", "words"), CASES, ids=[words for _, _, words in CASES])
def test_facts_that_are_not_so_are_counted_and_shown(
    sales: Sales, expectation: Any, broken: dict[str, Any], words: str
) -> None:
    sales.load(sales.sales(20))
    passed = sales.check(expectation)
    assert passed.result == "passed", passed.message
    assert [finding.expectation for finding in passed.findings] == [words]
    assert passed.findings[0].unexpected == 0

    bad = sales.sales(5, **broken)
    sales.load(bad)
    failed = sales.check(expectation)
    (finding,) = failed.findings
    assert failed.result == "failed"
    assert finding.unexpected == 5
    assert len(finding.examples) == 3
    assert {example["sale_id"] for example in finding.examples} <= {sale["sale_id"] for sale in bad}
    assert finding.message is not None
    assert finding.message.startswith(f"{words}: not so for 5 of 25 facts, for example sale_id ")
    assert finding.message in failed.message


def test_nulls_are_nothing_to_complain_about_unless_they_are_named(sales: Sales) -> None:
    sales.load(sales.sales(5, colour=None, price=None, article_sk=None))
    report = sales.check(
        {"between": {"column": "price", "min": 0}},
        {"in_set": {"column": "colour", "values": ["green"]}},
        {"matches": {"column": "colour", "regex": "green"}},
        {"references": {"column": "article_sk", "relation": "shop.article", "key": "article_sk"}},
    )
    assert report.result == "passed", report.message


def test_one_or_several_columns_tell_facts_apart(sales: Sales) -> None:
    sales.load([*sales.sales(4, price=7), *sales.sales(1, price=7, till="till 2"), *sales.sales(1, price=8)])
    one, several, apart = sales.check(
        {"unique": ["price"]}, {"unique": ["price", "till"]}, {"unique": ["price", "till", "sale_id"]}
    ).findings
    assert (one.unexpected, several.unexpected, apart.passed) == (5, 4, True)
    assert one.message is not None
    assert one.message.startswith("price is unique: not so for 5 of 6 facts")
    assert several.columns == ("price", "till")
    assert [example["till"] for example in several.examples] == ["till 1"] * 3


def test_mostly_leaves_room_for_a_share_of_the_facts(sales: Sales) -> None:
    sales.load([*sales.sales(99), *sales.sales(1, colour=None, article_sk=101)])
    reference = {"references": {"column": "article_sk", "relation": "shop.article", "key": "article_sk"}}
    query = {"sql": {"name": "has a colour", "rows": "SELECT * FROM {facts} WHERE colour IS NULL"}}
    for expectation in ({"not_null": ["colour"]}, reference, query):
        assert sales.check({**expectation, "mostly": 0.99}).result == "passed"
        (finding,) = sales.check({**expectation, "mostly": 0.995}).findings
        assert not finding.passed
        assert "(for 99.50% of the facts)" in finding.expectation


def test_values_that_stand_in_for_a_missing_article_need_not_be_in_the_relation(sales: Sales) -> None:
    sales.load(sales.sales(3, article_sk=-1))
    reference = {"column": "article_sk", "relation": "shop.article", "key": "article_sk"}
    assert sales.check({"references": reference}).result == "failed"
    assert sales.check({"references": {**reference, "besides": [-1]}}).result == "passed"


def test_a_query_may_be_written_as_one_likes(sales: Sales) -> None:
    sales.load([*sales.sales(3, till="50 % off:now"), *sales.sales(1)])
    report = sales.check(
        {"sql": {"name": "with", "rows": "WITH odd AS (SELECT * FROM {facts} f WHERE price > 5) SELECT * FROM odd;"}},
        {"sql": {"name": "signs", "rows": "SELECT sale_id FROM {facts} WHERE till LIKE '50 \\% off:now' -- all"}},
        {"sql": {"name": "same colour", "rows": "SELECT 1::int AS n FROM {facts} GROUP BY colour HAVING count(*) < 4"}},
    )
    assert [(finding.passed, finding.unexpected) for finding in report.findings] == [(True, 0), (False, 3), (True, 0)]


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT 1 AS n) AS x) AS u; COMMIT; CREATE TABLE shop.broken_out (); BEGIN READ ONLY; "
        "SELECT 0 AS rows FROM (SELECT * FROM (SELECT 1 FROM {facts}",
        "SELECT 1 FROM {facts}) AS x) AS u; SELECT count(*) AS rows FROM (SELECT * FROM (SELECT 1",
        "WITH gone AS (DELETE FROM shop.sale RETURNING *) SELECT gone.* FROM gone, {facts} AS f",
        "SELECT set_config('transaction_read_only', 'off', false) AS s FROM {facts}",
    ],
    ids=["out of the transaction", "two queries", "writes", "would write"],
)
def test_an_expectation_is_one_query_that_writes_nothing(sales: Sales, rows: str) -> None:
    sales.load(sales.sales(3))
    report = sales.check({"sql": {"name": "attack", "rows": rows}})
    assert report.result == "error"
    assert sales.query("SELECT to_regclass('shop.broken_out'), count(*) FROM shop.sale") == [(None, 3)]


def test_what_an_expectation_sets_is_not_so_for_the_next(sales: Sales) -> None:
    sales.load(sales.sales(3))
    sets = "SELECT 1 FROM {facts} WHERE set_config('statement_timeout', '0', false) <> '0'"
    asks = "SELECT 1 FROM {facts} WHERE current_setting('statement_timeout') = '0'"
    report = sales.check({"sql": {"name": "sets", "rows": sets}}, {"sql": {"name": "asks", "rows": asks}})
    assert report.result == "passed", report.message


def test_the_ledger_tells_how_many_facts_there_must_be(sales: Sales) -> None:
    sales.load(sales.sales(10))
    assert sales.check("row_conservation").result == "passed"
    sales.load(sales.sales(3), counted=5)
    (finding,) = sales.check("row_conservation").findings
    assert finding.message == "row conservation: there are 15 facts, as the ledger says: there are 13."


@pytest.mark.parametrize(("late", "result"), [(1, "passed"), (2, "failed")])
def test_one_in_a_hundred_facts_may_be_late(sales: Sales, late: int, result: str) -> None:
    sales.load(sales.sales(100 - late))
    slow = sales.load(sales.sales(late), latency=timedelta(seconds=20))
    report = sales.check({"freshness": {"p99": "5s"}})
    assert report.result == result, report.message
    (finding,) = report.findings
    assert finding.unexpected == late
    assert [example["batch_no"] for example in finding.examples] == [slow]
    if late == 2:
        assert "99% of the facts could be read within 5 s of their event: not so for 2 of 100 facts" in report.message


def test_reprocessed_facts_are_late_by_nature(sales: Sales) -> None:
    sales.load(sales.sales(5))
    sales.load(sales.sales(5), run=True, latency=timedelta(hours=1))
    assert sales.check({"freshness": {"p99": "5s"}}, "row_conservation").result == "passed"


def test_an_expectation_that_cannot_be_checked_is_told_with_the_servers_words(sales: Sales) -> None:
    sales.load(sales.sales(3))
    report = sales.check({"sql": {"name": "typo", "rows": "SELECT colur FROM {facts}"}}, {"not_null": ["till"]})
    assert report.result == "error"
    assert report.error is not None
    assert 'typo: UndefinedColumn: column "colur" does not exist' in report.error


@pytest.mark.parametrize(
    ("column", "regex", "refusal"),
    [
        ("till", "(?P<x>a)", "invalid regular expression: "),
        ("till", "[", "invalid regular expression: "),
        ("article_sk", "1", "operator does not exist: bigint ~ unknown"),
    ],
)
def test_a_pattern_that_postgresql_refuses_is_named(sales: Sales, column: str, regex: str, refusal: str) -> None:
    sales.load(sales.sales(3))
    pattern = {"matches": {"column": column, "regex": regex}}
    report = sales.check({"not_null": ["till"]}, {"matches": {"column": "till", "regex": "till"}}, pattern)
    assert report.result == "error"
    assert report.error is not None
    assert report.error.startswith(f"{column} matches {regex}: {refusal}")
    assert "PostgreSQL's regular expressions are allowed" in report.error
    assert sales.query("SELECT result, error FROM freshet.validation") == [("error", report.error)]
    assert list(sales.validated_by().values()) == [None]


def test_patterns_are_those_of_postgresql(sales: Sales) -> None:
    sales.load(sales.sales(3))
    patterns = (r"\mtill\M", "[[:digit:]]$", "(?i)TILL")
    report = sales.check(*({"matches": {"column": "till", "regex": pattern}} for pattern in patterns))
    assert report.result == "passed", report.message
