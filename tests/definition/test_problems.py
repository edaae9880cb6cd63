from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from pydantic import ValidationError

from spark_jobs.definition import PipelineDefinition, load_definition, load_definitions
from spark_jobs.definition.problems import problems_of
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.settings import PIPELINES_VARIABLE

GOOD = """
name: orders
source:
  format: json
  path: ${FRESHET_HOME}/landing/orders
  schema: "o_orderkey bigint, o_custkey bigint, o_price double, ordered_at timestamp"
  event_id: [o_orderkey]
  event_time: ordered_at
lookups:
  - relation: master.customer
    on: {o_custkey: c_custkey}
    fetch: {customer_sk: customer_sk}
    algorithm: auto
    memory: 64MB
    on_unmatched: hold
fact: {table: warehouse.fact_orders, columns: {order_key: o_orderkey, customer_sk: customer_sk}}
freshness: {target: 5s}
shedding: {policy: considered}
"""

SECOND_LOOKUP = """    on_unmatched: hold
  - relation: master.region
    on: {customer_sk: r_key}
    fetch: {customer_sk: name}
"""


def refusal(folder: Path, text: str, name: str = "orders.yaml") -> str:
    path = folder / name
    path.write_text(text)
    with pytest.raises(PipelineDefinitionError) as error:
        load_definition(path)
    assert str(path) in str(error.value)
    return str(error.value)


MISTAKES = [
    # Shape: unknown keys, missing keys, wrong types.
    ("freshness:", "freshnes:", "freshnes: is not a key of this mapping. Did you mean 'freshness'? Allowed: name,"),
    ("format:", "formt: json\n  format:", "source.formt: is not a key of this mapping. Did you mean 'format'?"),
    ("memory:", "memry: 1MB\n    memory:", "lookups[0].memry: is not a key of this mapping. Did you mean"),
    ("event_time: ordered_at", "", "source.event_time: is missing. For example: event_time: ordered_at"),
    ("fact:", "facts:", "fact: is missing."),
    ("name: orders", "name: 5", "name: 5 is not text."),
    ("event_id: [o_orderkey]", "event_id: o_orderkey", "source.event_id: 'o_orderkey' is not a list."),
    ("event_id: [o_orderkey]", "event_id: []", "source.event_id: []"),
    ("{o_custkey: c_custkey}", "[o_custkey]", "lookups[0].on: ['o_custkey'] is not a mapping."),
    ("{o_custkey: c_custkey}", "{o_custkey: 5}", "lookups[0].on.o_custkey: 5 is not text."),
    ("{customer_sk: customer_sk}\n", "{}\n", "lookups[0].fetch: {}"),
    ("  - relation", "  - nonsense\n  - relation", "lookups[0]: 'nonsense' is not a mapping."),
    # Values.
    ("name: orders", "name: Orders", "'Orders' is not a pipeline's name. Allowed: a small letter, then"),
    ("name: orders", "name: order", "'order' is not the name of its file. Write name: orders, or rename the file"),
    ("format: json", "format: jsn", "source.format: 'jsn' is not allowed. Did you mean 'json'? Allowed: json,"),
    ("${FRESHET_HOME}/landing", "landing", "'landing/orders' is not an absolute path"),
    ("${FRESHET_HOME}/landing", "${HOME}/landing", "is not an absolute path"),
    ("landing/orders", "landing/*", "holds one of *?[]{}$"),
    ("o_price double", "o_price doubl", "source.schema: column 'o_price' has the unknown type 'doubl'. Did"),
    ("relation: master.customer", "relation: customer", "'customer' is not a table. Write schema.table"),
    ("table: warehouse.fact", "table: a.b.c", "fact.table: 'a.b.c_orders' is not a table."),
    ("algorithm: auto", "algorithm: hybridjoin", "'hybridjoin' is not allowed. Did you mean 'hybrid_join'?"),
    ("memory: 64MB", "memory: 64XB", "lookups[0].memory: '64XB' is not a size."),
    ("memory: 64MB", "memory: 0MB", "lookups[0].memory: '0MB' must be more than 0."),
    ("memory: 64MB", "memory: true", "lookups[0].memory: True has no unit"),
    ("memory: 64MB", "memory: 1B", "lookups[0].memory: '1B' is not allowed. Allowed: 64KB to 16TB."),
    ("memory: 64MB", "memory: 17TB", "lookups[0].memory: '17TB' is not allowed. Allowed: 64KB to 16TB."),
    ("memory: 64MB", "read_limit: .inf", "lookups[0].read_limit: inf is not allowed. Allowed: more than 0, up to "
     "1000000000/s; or leave the key out, for no limit."),
    ("memory: 64MB", "read_limit: .nan", "lookups[0].read_limit: nan is not allowed."),
    ("memory: 64MB", "read_limit: 0/s", "lookups[0].read_limit: '0/s' is not allowed."),
    ("shedding:", "reprocessing: {limit: true}\nshedding:", "reprocessing.limit: True is not allowed. Allowed: a "
     "whole number, 1 to 1000000000."),
    ("shedding:", f"reprocessing: {{limit: {10**30}}}\nshedding:",
     "reprocessing.limit: 1000000000000000000000000000000 is not allowed."),
    ("shedding:", "reprocessing: {most_attempts: true}\nshedding:", "reprocessing.most_attempts: True is not"),
    ("shedding:", "retention: {ledger: 9999999d}\nshedding:",
     "retention.ledger: '9999999d' is not allowed. Allowed: 1d to 36525d; or null, for ever."),
    ("shedding:", "retention: {ledger: 23h}\nshedding:", "retention.ledger: '23h' is not allowed. Allowed: 1d to"),
    ("shedding:", "retention: {shed: 36526d}\nshedding:", "retention.shed: '36526d' is not allowed. Allowed: up to "
     "36525d; or null, for ever."),
    ("target: 5s", "target: 36526d", "freshness.target: '36526d' is not allowed. Allowed: up to 36525d."),
    ("target: 5s", "target: 5", "freshness.target: 5 has no unit"),
    ("target: 5s", "target: soon", "freshness.target: 'soon' is not a duration."),
    ("target: 5s", "target: 0s", "freshness.target: '0s' must be more than 0."),
    ("unmatched: hold", "unmatched: drop", "'drop' is not allowed. Allowed: hold, reject, {default: ...}."),
    ("policy: considered", "policy: on", "shedding.policy: 'on' is not allowed. Allowed: considered, off."),
    # What does not fit together.
    ("event_id: [o_orderkey]", "event_id: [o_orderky]", "source.event_id[0]: 'o_orderky' is not a column of source."
     "schema. Did you mean 'o_orderkey'? Columns: o_orderkey, o_custkey, o_price, ordered_at."),
    ("event_id: [o_orderkey]", "event_id: [o_orderkey, o_orderkey]", "event_id[1]: 'o_orderkey' appears twice"),
    ("event_id: [o_orderkey]", "event_id: [o_price]", "source.event_id[0]: column 'o_price' is of type double"),
    ("event_time: ordered_at", "event_time: at", "source.event_time: 'at' is not a column"),
    ("event_time: ordered_at", "event_time: o_price", "source.event_time: column 'o_price' is of type double"),
    ("o_price double", "_record string", "source.schema: column '_record' has a name that the plan needs itself"),
    ("o_price double", "_PAGE_1 string", "source.schema: column '_PAGE_1' has a name that the plan needs itself"),
    ("{o_custkey: c_custkey}", "{o_custky: c}", "lookups[0].on.o_custky: 'o_custky' is not a column"),
    ("{o_custkey: c_custkey}", "{o_price: c}", "lookups[0].on.o_price: column 'o_price' is of type double"),
    ("fetch: {customer_sk:", "fetch: {o_price:", "lookups[0].fetch.o_price: is the name of a stream's column"),
    ("fetch: {customer_sk:", "fetch: {O_Price:", "lookups[0].fetch.O_Price: is the name of a stream's column"),
    ("fetch: {customer_sk:", "fetch: {CUSTOMER_sk: x, customer_sk:", "lookups[0].fetch.customer_sk: is the output "
     "'CUSTOMER_sk' once more (Spark ignores case); choose another output name."),
    ("    on_unmatched: hold\n", SECOND_LOOKUP.replace("{customer_sk: name", "{Customer_SK: name"),
     "lookups[1].fetch.Customer_SK: is fetched by lookups[0] already (Spark ignores case); choose another"),
    ("table: warehouse.fact_orders", "table: freshet.batch", "fact.table: 'freshet.batch' is in the schema "
     "freshet, which holds Freshet's own tables. Allowed: any other schema. Write for example warehouse.batch."),
    ("fetch: {customer_sk:", "fetch: {_RECORD:", "lookups[0].fetch._RECORD: has a name that the plan needs itself"),
    ("    on_unmatched: hold\n", SECOND_LOOKUP, "lookups[1].on.customer_sk: is fetched by lookups[0], but the key"),
    ("    on_unmatched: hold\n", SECOND_LOOKUP, "lookups[1].fetch.customer_sk: is fetched by lookups[0] already"),
    ("unmatched: hold", "unmatched: {default: {customer_s: 1}}", "lookups[0].on_unmatched.default.customer_s: is "
     "not fetched here. Did you mean 'customer_sk'? Outputs: customer_sk."),
    ("unmatched: hold", "unmatched: {default: {customer_s: 1}}", "gives no value for customer_sk"),
    ("unmatched: hold", "unmatched: {default: {customer_sk: [1]}}", "default.customer_sk: [1] is not one value"),
    ("unmatched: hold", "unmatched: {default: {customer_sk: .nan}}", "default.customer_sk: nan is not one value"),
    ("algorithm: auto", "as_of: event_time", "lookups[0].as_of: says at which time, but not by which columns of "
     "master.customer a version is valid then. Add for example validity: [valid_from, valid_to]."),
    ("algorithm: auto", "validity: [f, t]", "lookups[0].validity: means nothing without as_of. Add as_of: "),
    ("algorithm: auto", "validity: [f]", "lookups[0].validity"),
    ("algorithm: auto", "as_of: now", "lookups[0].as_of: 'now' is not allowed."),
    ("algorithm: auto", "as_of: event_time\n    validity: [f, f]", "lookups[0].validity: 'f' appears twice; name"),
    ("algorithm: auto", "as_of: event_time\n    validity: [c_custkey, t]", "lookups[0].validity: 'c_custkey' is a "
     "column of the key in `on`."),
    ("customer_sk: customer_sk}}", "customer_sk: custmer_sk}}", "columns.customer_sk: 'custmer_sk' is neither"),
    ("order_key: o_orderkey, ", "", "fact.columns: leaves out o_orderkey"),
    ("event_time: ordered_at", "event_time: ordered_at\n  options: {header: true}", "source.options.header: is not "
     "an option of this format. Allowed for json: most_unpacked, most_rejected."),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_key_and_what_is_allowed(tmp_path: Path, good: str, bad: str, message: str) -> None:
    assert GOOD.count(good) >= 1
    assert message in refusal(tmp_path, GOOD.replace(good, bad, 1))


OF_SOURCE = [each for each in MISTAKES if each[2].startswith("source.")]


@pytest.mark.parametrize(("good", "bad", "message"), OF_SOURCE)
def test_a_mistake_in_one_of_several_streams_is_named_alike(tmp_path: Path, good: str, bad: str, message: str) -> None:
    source = GOOD[GOOD.index("  format:") : GOOD.index("lookups:")].replace(good, bad, 1)
    text = f"""
name: orders
streams:
  x:
{indent(source, "  ")}
  y: {{format: json, path: /y, schema: "id bigint, at timestamp", event_id: [id], event_time: at}}
join: {{on: {{x: o_orderkey, y: id}}}}
fact: {{table: warehouse.facts, columns: {{x: x.o_orderkey, y: y.id}}}}
"""
    assert message.replace("source.", "streams.x.") in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("changes", "key", "told"),
    [
        ({"kafka": {"server": "kafka:9092"}}, "kafka.server", "is not a key of this mapping. Did you mean 'servers'?"),
        ({"after_load": {"delet_after": "1d"}}, "after_load.delet_after", "is not a key of this mapping. Did you mean"),
        ({"after_load": {"delete_after": 5}}, "after_load.delete_after", "5 has no unit"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_keys_of_a_part_of_a_source_are_named(changes: dict[str, Any], key: str, told: str, streams: bool) -> None:
    content: dict[str, Any] = {"streams": {"x": changes}} if streams else {"source": changes}
    with pytest.raises(ValidationError) as raised:
        PipelineDefinition.model_validate(content)
    texts = dict(problems_of(raised.value, PipelineDefinition))
    assert texts[f"streams.x.{key}" if streams else f"source.{key}"].startswith(told)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{seperator: x}", "source.options.seperator: is not an option of this format."),
        (
            "{headr: true}",
            "Did you mean 'header'? Allowed for csv: header, sep, quote, escape, nullValue, most_",
        ),
        ("{header: yes}", "source.options.header: 'yes' is not allowed. Allowed: true, false."),
        ("{sep: '||'}", "source.options.sep: '||' is not one ASCII character."),
        ('{sep: "\\n"}', "source.options.sep: '\\n' is not one ASCII character."),
        (
            "{sep: ';', quote: ';'}",
            "source.options.quote: ';' has another meaning already; choose a character that sep",
        ),
        (
            "{escape: ','}",
            "source.options.escape: ',' has another meaning already; choose a character that sep is not.",
        ),
        ("{nullValue: [x]}", "source.options.nullValue: ['x'] is not text."),
        ("{most_unpacked: 2 parsecs}", "source.options.most_unpacked: '2 parsecs' is not a size. Write a number and"),
        ("{most_rejected: -1}", "source.options.most_rejected: '-1' is not a number of records. Allowed: a whole"),
    ],
)
def test_options_of_the_reader_are_checked(tmp_path: Path, options: str, message: str) -> None:
    text = GOOD.replace("format: json", f"format: csv\n  options: {options}")
    assert message in refusal(tmp_path, text)


def test_csv_has_no_binary(tmp_path: Path) -> None:
    text = GOOD.replace("format: json", "format: csv").replace("o_price double", "photo binary")
    assert "source.schema: column 'photo' is of type binary, which csv has not; use string." in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty. A pipeline is a mapping"),
        ("- name: orders", "holds a list, not a mapping"),
        ("name: orders\nname: orders\n", "line 2, column 1: key 'name' appears twice; remove one"),
        ("name: orders\nsource: {path: a, path: b}\n", "line 2, column 19: key 'path' appears twice"),
        ("name: [orders", "line 1"),
        ("name: orders\n\tsource: x", "line 2, column 1"),
        ("5: orders", "Keys should be strings"),
        (f"name: orders\nx: {'9' * 5000}", "line 2, column 4: the number is 5000 characters long; allowed are 100"),
        (f"name: {'[' * 3000}{']' * 3000}", "lists and mappings are nested deeper than 50 levels"),
        ("name: orders\nx: !!timestamp soon", "line 2, column 4: 'soon' can't be read as timestamp; correct it"),
        ("name: orders\nx: !!int soon", "line 2, column 4: 'soon' can't be read as int; correct it, or write it in q"),
    ],
)
def test_what_is_no_mapping_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


def test_a_file_that_is_not_utf8_or_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(PipelineDefinitionError, match="byte 6 is not UTF-8"):
        load_definition(tmp_path / "orders.yaml")
    with pytest.raises(PipelineDefinitionError, match="there is no such file"):
        load_definition(tmp_path / "nothing.yaml")


def test_all_problems_of_a_file_come_in_one_error(tmp_path: Path) -> None:
    text = GOOD.replace("format: json", "format: jsn").replace("memory: 64MB", "memory: much")
    text = text.replace("{order_key: o_orderkey, ", "{order_key: o_orderkey, price: nothing, ")
    text = text.replace("shedding:", "sheding:").replace("event_id: [o_orderkey]", "event_id: [o_orderky]")
    message = refusal(tmp_path, text)
    for key in ("source.format", "lookups[0].memory", "sheding"):
        assert f"  {key}: " in message
    # The source is wrong in itself, so nothing is compared with its columns.
    assert "fact.columns" not in message
    assert "3 problems" in message


def test_parts_that_are_right_are_compared_even_if_others_are_wrong(tmp_path: Path) -> None:
    message = refusal(tmp_path, GOOD.replace("shedding:", "sheding:").replace("[o_orderkey]", "[o_orderky]"))
    assert "  sheding: " in message
    assert "  source.event_id[0]: " in message


def test_problems_of_all_files_come_in_one_error(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(GOOD)
    (tmp_path / "two.yaml").write_text("")
    with pytest.raises(PipelineDefinitionError) as error:
        load_definitions(tmp_path)
    assert "one.yaml" in str(error.value)
    assert "two.yaml" in str(error.value)


def test_two_files_of_one_pipeline_are_told_and_the_other_pipelines_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    for name in ("orders.yaml", "orders.yb.yaml", "orders.yml"):  # what stands between them by name is another
        (tmp_path / name).write_text(GOOD)
    (tmp_path / "returns.yaml").write_text(GOOD.replace("name: orders", "name: returns"))
    told = r"orders\.yaml and orders\.yml would both be the pipeline 'orders'\. Remove one of them, or"
    for load in (load_definitions, lambda: load_definition("orders")):
        with pytest.raises(PipelineDefinitionError, match=told):
            load()
    assert load_definition("returns").name == "returns"


def test_two_pipelines_of_one_fact_table_are_told_and_the_others_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "returns.yaml").write_text(GOOD.replace("name: orders", "name: returns"))
    other = GOOD.replace("name: orders", "name: visits").replace("warehouse.fact_orders", "warehouse.fact_visits")
    (tmp_path / "visits.yaml").write_text(other)
    with pytest.raises(PipelineDefinitionError, match=r"warehouse\.fact_orders is the fact table of orders and ret"):
        load_definitions()
    assert load_definition("visits").name == "visits"


def test_an_unknown_pipeline_is_answered_with_those_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    (tmp_path / "orders.yaml").write_text(GOOD)
    with pytest.raises(PipelineDefinitionError, match=r"no pipeline 'order' in .* Did you mean 'orders'"):
        load_definition("order")
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(PipelineDefinitionError, match="is not a folder"):
        load_definition("orders")
