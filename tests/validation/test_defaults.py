"""The expectations that follow from a pipeline itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.control.roles import grant_roles
from spark_jobs.errors import NotValidatedError
from spark_jobs.settings import Home
from spark_jobs.validation.validate import validate_facts
from tests.validation.sales import Sales


def test_what_follows_from_the_pipeline_is_expected(sales: Sales) -> None:
    sales.load(sales.sales(3))
    report = sales.validate(sales.definition(defaults=True))
    assert report.result == "passed", report.message
    *fixed, future, reference = [finding.expectation for finding in report.findings]
    assert fixed == [
        "row conservation: there are 3 facts, as the ledger says",
        "sale_id is unique",
        "sale_id is not null",
        "till is not null",
        "at is not null",
    ]
    assert future.startswith("at is at most 20")
    assert reference == "article_sk is in shop.article (article_sk)"


def test_an_event_of_the_future_an_orphan_and_a_fact_without_time_are_found(sales: Sales) -> None:
    sales.load(
        [
            *sales.sales(4),
            *sales.sales(1, at=datetime.now(UTC) + timedelta(seconds=30)),
            *sales.sales(1, at=datetime.now(UTC) + timedelta(minutes=5)),
            *sales.sales(2, article_sk=-1),
            *sales.sales(3, at=None),
        ]
    )
    report = sales.validate(sales.definition(defaults=True))
    assert [finding.columns for finding in report.findings if not finding.passed] == [("at",), ("at",), ("article_sk",)]
    by_words = {finding.expectation.split(" 2")[0]: finding.unexpected for finding in report.findings}
    assert by_words["at is at most"] == 1
    assert by_words["at is not null"] == 3
    assert by_words["article_sk is in shop.article (article_sk)"] == 2


def test_a_default_of_the_lookup_is_no_orphan(sales: Sales) -> None:
    sales.load(sales.sales(2, article_sk=-1))
    stand_ins = {"default": {"sk": -1, "tint": None}}
    assert sales.validate(sales.definition(defaults=True, on_unmatched=stand_ins)).result == "passed"


def test_own_expectations_come_on_top_and_none_twice(sales: Sales) -> None:
    sales.load(sales.sales(2))
    own = [{"unique": ["sale_id"]}, {"not_null": ["price"]}]
    words = [each.expectation for each in sales.validate(sales.definition(*own, defaults=True)).findings]
    assert len(words) == len(set(words))
    assert words[-2:] == ["sale_id is unique", "price is not null"]


def test_the_table_and_its_columns_must_be_there(sales: Sales) -> None:
    load = sales.load(sales.sales(1))
    sales.query("ALTER TABLE shop.sale DROP COLUMN day")
    report = sales.validate(sales.definition(defaults=True))
    assert report.result == "error"
    assert "shop.sale has no column day. Add it, or take it out of fact.columns of sales." in report.message
    assert sales.validated_by() == {load: None}
    sales.query("DROP TABLE shop.sale")
    assert "There is no table shop.sale." in sales.validate(sales.definition()).message


def test_the_validators_role_is_enough(sales: Sales, tmp_path: Path) -> None:
    sales.load(sales.sales(2))
    definition = sales.definition(defaults=True)
    as_validator = f"{sales.url}&options=-c%20role%3Dfreshet_validator"
    sales.query("REVOKE USAGE ON SCHEMA freshet FROM freshet_validator")
    with pytest.raises(NotValidatedError, match="Make it a member of the role freshet_validator"):
        validate_facts(definition, as_validator, Home(tmp_path))
    grant_roles(sales.connection, [definition])
    sales.connection.autocommit = True
    assert validate_facts(definition, as_validator, Home(tmp_path)).result == "passed"
    sales.query("REVOKE SELECT ON shop.sale FROM freshet_validator")
    assert "may not read shop.sale. GRANT USAGE" in validate_facts(definition, as_validator, Home(tmp_path)).message
