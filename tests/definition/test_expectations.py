"""What a pipeline's file may expect of its facts, and how mistakes in that are told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.errors import PipelineDefinitionError

VISITS = """
name: visits
source:
  format: json
  path: /landing/visits
  schema: "id bigint, shop string, floor int, price decimal(9,2), day date, at timestamp"
  event_id: [id]
  event_time: at
lookups: [{relation: master.shop, on: {shop: code}, fetch: {shop_sk: shop_sk}}]
fact:
  table: warehouse.visits
  columns: {visit: id, shop_sk: shop_sk, floor: floor, shop: shop, price: price, day: day, at: at, load: _batch_no}
validation:
  expectations:
"""
ALL = r"""
    - not_null: [visit, shop_sk]
    - unique: [visit]
    - between: {column: floor, min: 0, max: 9}
    - between: {column: day, min: 2026-01-31}
    - between: {column: at, max: 2026-01-31T12:00:00Z}
    - in_set: {column: shop, values: [a, b]}
    - matches: {column: shop, regex: '\m[a-z]+$'}
    - references: {column: shop_sk, relation: master.shop, key: shop_sk, besides: [-1]}
    - row_conservation
    - completeness
    - freshness: {p99: 5s}
    - sql: {name: cheap, rows: "SELECT * FROM {facts} WHERE price > 5;"}
      mostly: 0.9
"""


def load(folder: Path, expectations: str) -> PipelineDefinition:
    path = folder / "visits.yaml"
    path.write_text(VISITS + expectations)
    return load_definition(path)


def test_each_kind_is_read(tmp_path: Path) -> None:
    definition = load(tmp_path, ALL)
    expectations = definition.validation.expectations
    assert [each.kind for each in expectations] == [
        *("not_null", "unique", "between", "between", "between", "in_set", "matches", "references"),
        *("row_conservation", "completeness", "freshness", "sql"),
    ]
    assert expectations[0].columns == ("visit", "shop_sk")
    days, times = expectations[3].between, expectations[4].between
    assert days is not None
    assert times is not None
    assert (days.min, times.max) == (date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert expectations[-1].mostly == 0.9
    assert expectations[-1].sql is not None
    assert expectations[-1].sql.rows.endswith("price > 5")
    assert PipelineDefinition.model_validate_json(definition.model_dump_json(by_alias=True)) == definition


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ("{not_nul: [visit]}", "expectations[0].not_nul: is not a key of this mapping. Did you mean 'not_null'?"),
        ("{mostly: 0.9}", "expectations[0]: says nothing; write one of not_null, unique, between,"),
        ("{unique: [visit], not_null: [visit]}", "expectations[0]: has not_null and unique; write one of"),
        ("nonsense", "expectations[0]: 'nonsense' is not a mapping."),
        ("{not_null: []}", "expectations[0].not_null: []"),
        ("{not_null: [visits]}", "expectations[0].not_null: 'visits' is not a column of fact.columns. Did you mean"),
        ("{not_null: [visit], mostly: 2}", "expectations[0].mostly: 2"),
        ("{row_conservation: true, mostly: 0.5}", "mostly: 0.5 says nothing about row_conservation; take it out."),
        ("{between: {column: floor}}", "expectations[0].between: has neither min nor max"),
        ("{between: {column: floor, min: low}}", "between.min: 'low' is neither a number nor a date or time"),
        ("{between: {column: floor, min: 2026-01-31}}", "column 'floor' is of type int; write a number as min"),
        ("{between: {column: at, min: 5}}", "column 'at' is of type timestamp; write a date or time as min and max."),
        ("{between: {column: shop, min: 5}}", "column 'shop' is of type string. Allowed: numbers, dates"),
        ("{between: {column: at, min: 5, max: 2026-01-31}}", "has a number for one bound and a time for the other"),
        ("{between: {column: floor, min: 5, max: 1}}", "between: min 5 is above max 1: no value lies between them; ex"),
        ("{between: {column: at, min: 2026-02-01, max: 2026-01-31T12:00:00Z}}", "between: min 2026-02-01 is above max"),
        ("{between: {column: floor, min: .nan}}", "between.min: nan is not allowed. Allowed: finite numbers;"),
        ("{between: {column: floor, max: .inf}}", "between.max: inf is not allowed."),
        ("{in_set: {column: floor, values: [.nan]}}", "in_set.values[0]: nan is not allowed."),
        ("{matches: {column: floor, regex: a}}", "matches: column 'floor' is of type int. Allowed: string; a pattern"),
        ("{matches: {column: load, regex: a}}", "matches: column 'load' is of type bigint. Allowed: string; a pattern"),
        ("{not_null: [visit], mostly: true}", "mostly: True is not a share. Allowed: a number above 0, up to 1,"),
        ("{not_null: [visit], mostly: .nan}", "mostly: nan is not a share."),
        ("{row_conservation: false}", "row_conservation: False is not allowed. Allowed: true."),
        ("{in_set: {column: shop, values: []}}", "in_set.values: []"),
        ("{references: {column: shop_sk, relation: shop, key: k}}", "references.relation: 'shop' is not a table."),
        ("{references: {column: shop_s, relation: m.shop, key: k}}", "references: 'shop_s' is not a column of fact.co"),
        ("{freshness: {p99: 5}}", "freshness.p99: 5 has no unit"),
        ("{sql: {name: x, rows: SELECT 1}}", "sql.rows: 'SELECT 1' does not read {facts}"),
        ("{sql: {name: x, rows: 'DELETE FROM {facts}'}}", "is no query. Write SELECT ... FROM {facts}"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_what_is_allowed(tmp_path: Path, expectation: str, message: str) -> None:
    with pytest.raises(PipelineDefinitionError) as error:
        load(tmp_path, f"    - {expectation}\n")
    assert message in str(error.value)


def test_bounds_may_be_equal_and_of_two_kinds_of_time(tmp_path: Path) -> None:
    expectations = load(
        tmp_path,
        "    - between: {column: floor, min: 5, max: 5}\n"
        "    - between: {column: at, min: 2026-01-31, max: 2026-01-31T00:00:00}\n",
    ).validation.expectations
    assert [each.kind for each in expectations] == ["between", "between"]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PipelineDefinitionError) as error:
        load(tmp_path, "    - {not_null: [a]}\n    - {between: {column: floor}}\n    - {unique: [b]}\n")
    for place in (
        "expectations[0].not_null: 'a'",
        "expectations[1].between: has neither",
        "expectations[2].unique: 'b'",
    ):
        assert place in str(error.value)
    assert "3 problems" in str(error.value)


def test_the_number_of_the_load_is_a_source_of_fact_columns_and_of_nothing_else(tmp_path: Path) -> None:
    assert load(tmp_path, "    []\n").fact.columns["load"] == "_batch_no"
    for good, bad in (("event_id: [id]", "event_id: [_batch_no]"), ("event_time: at", "event_time: _batch_no")):
        path = tmp_path / "visits.yaml"
        path.write_text((VISITS + "    []\n").replace(good, bad))
        with pytest.raises(PipelineDefinitionError, match=r"'_batch_no' is not a column of source\.schema"):
            load_definition(path)
