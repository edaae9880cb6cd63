"""Definitions of several streams that are joined with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.definition.matching import Band
from spark_jobs.errors import PipelineDefinitionError

SALES = """\
name: sales
streams:
  orders:
    format: json
    path: /landing/orders
    schema: "order_id bigint, at timestamp"
    event_id: [order_id]
    event_time: at
  payments:
    format: csv
    path: /landing/payments
    schema: "payment_id string, order_id bigint, amount decimal(12,2), at timestamp"
    event_id: [payment_id]
    event_time: at
join:
  on: {orders: order_id, payments: order_id}
  window: 2h
fact:
  table: warehouse.sales
  columns: {order_id: orders.order_id, payment_id: payments.payment_id, amount: payments.amount, at: _completed_at}
"""


def load(folder: Path, *changes: tuple[str, str]) -> PipelineDefinition:
    text = SALES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "sales.yaml").write_text(text)
    return load_definition(folder / "sales.yaml")


def test_joined_tuples_have_the_columns_of_all_streams_and_the_ids_of_all_events(tmp_path: Path) -> None:
    source = load(tmp_path).tuples
    assert {name: str(kind) for name, kind in source.columns.items()} == {
        "orders.order_id": "bigint",
        "orders.at": "timestamp",
        "payments.payment_id": "string",
        "payments.order_id": "bigint",
        "payments.amount": "decimal(12,2)",
        "payments.at": "timestamp",
        "_completed_at": "timestamp",
    }
    assert source.event_id == ("orders.order_id", "payments.payment_id")
    assert source.event_time == "_completed_at"


JOINED = "join:\n  on: {orders: order_id, payments: order_id}\n  window: 2h\n"
ACCUMULATED = (JOINED, "accumulate:\n  on: {orders: order_id, payments: order_id}\n")


def test_the_key_tells_facts_apart_that_accumulate(tmp_path: Path) -> None:
    assert load(tmp_path, ACCUMULATED).tuples.event_id == ("orders.order_id",)


OUTER = [
    ("window: 2h", "window: 2h\n  expired: {orders: emit}"),
    ("columns: {order_id:", "columns: {joined_id: _joined_id, order_id:"),
]


def test_facts_that_may_lack_parts_are_told_apart_by_the_ids_of_those_there(tmp_path: Path) -> None:
    definition = load(tmp_path, *OUTER)
    assert definition.tuples.event_id == ("_joined_id",)
    assert definition.join is not None
    assert (definition.join.becomes("orders"), definition.join.becomes("payments")) == ("emit", "hold")
    assert definition.join.lacking == {"payments"}


PUNCTUATED = ("window: 2h", "window: 2h\n  punctuations: {orders: unique, payments: {count: orders.n}}")
COUNTING = ("order_id bigint, at", "order_id bigint, n int, at")


def test_what_is_written_into_the_ledger_is_read_as_the_same(tmp_path: Path) -> None:
    definition = load(tmp_path, PUNCTUATED, COUNTING)
    assert PipelineDefinition.model_validate_json(definition.model_dump_json(by_alias=True)) == definition


MISTAKES = {
    "what expires of no stream": (
        ("window: 2h", "window: 2h\n  expired: {order: emit}"),
        "join.expired.order: is not a stream. Did you mean 'orders'?",
    ),
    "punctuations that are none": (
        ("window: 2h", "window: 2h\n  punctuations: {orders: uniq}"),
        "join.punctuations.orders: 'uniq' is not allowed. Did you mean 'unique'? Allowed: unique, {when: a",
    ),
    "two punctuations of one stream": (
        ("window: 2h", "window: 2h\n  punctuations: {orders: {when: a, count: payments.b}}"),
        "Write when: a boolean column, or count: a column of another stream; one of both.",
    ),
    "punctuations of facts that accumulate": (
        (JOINED, f"{ACCUMULATED[1]}  punctuations: {{orders: unique}}\n"),
        "accumulate.punctuations: is not a key of this mapping. It is a key of `join`. Allowed: on, required.",
    ),
    "a bound on facts of one each": (
        (JOINED, f"{ACCUMULATED[1]}  most_facts: 5\n"),
        "accumulate.most_facts: is not a key of this mapping. It is a key of `join`. Allowed: on, required.",
    ),
    "another end": (
        ("window: 2h", "window: 2h\n  expired: emmit"),
        ": 1 problem\n  join.expired: 'emmit' is not allowed. Did you mean 'emit'? Allowed: hold, reject, emit.",
    ),
    "another end of one stream": (
        ("window: 2h", "window: 2h\n  expired: {orders: emmit}"),
        ": 1 problem\n  join.expired.orders: 'emmit' is not allowed. Did you mean 'emit'? Allowed: hold, reject, emit.",
    ),
    "an outer join without its key": (OUTER[0], "leaves out _joined_id, but the event id is the fact's primary key"),
    "a key that is no column": (
        ("payments: order_id}", "payments: order_ix}"),
        "join.on.payments: 'order_ix' is not a column of streams.payments.schema. Did you mean 'order_id'?",
    ),
    "keys of two types": (
        ("payments: order_id}", "payments: payment_id}"),
        "column 'payment_id' is of type string, orders.order_id of type bigint: make them one.",
    ),
    "a key of one stream": (
        (", payments: order_id}", "}"),
        "join.on: {'orders': 'order_id'}: it holds 1; allowed are 2 or more. For example: on: {orders: order_id",
    ),
    "a key of no columns": (
        ("payments: order_id}", "payments: []}"),
        "join.on.payments: []: it holds 0; allowed are 1",
    ),
    "a key of no stream": (
        ("payments: order_id}", "payment: order_id}"),
        "join.on.payment: is not a stream. Did you mean 'payments'?",
    ),
    "keys of two lengths": (
        ("payments: order_id}", "payments: [order_id, amount]}"),
        "join.on: names more columns of one stream than of another",
    ),
    "an event id that is no column": (
        ("event_id: [payment_id]", "event_id: [id]"),
        "streams.payments.event_id[0]: 'id' is not a column of streams.payments.schema.",
    ),
    "required without accumulate": (
        ("window: 2h", "required: [orders]"),
        "join.required: is not a key of this mapping. It is a key of `accumulate`. Allowed: on, match, window,",
    ),
    "no duration": (("window: 2h", "window: 2 hours"), "  join.window: '2 hours' is not a duration. Write a"),
    "no window": (("window: 2h", "window: [2h]"), "  join.window: ['2h'] has no unit; write a number and a unit."),
    "windows of no length": (
        ("window: 2h", "window: {fixd: 1h}"),
        "  join.window.fixd: is not a key of this mapping. Did you mean 'fixed'? Allowed: fixed.",
    ),
    "a source besides": (
        ("join:", "source: {format: json}\njoin:"),
        "source: is one stream, and streams are",
    ),
    "streams that are not joined": (
        ("join:\n  on: {orders: order_id, payments: order_id}\n  window: 2h\n", ""),
        "join: is missing: streams says nothing without it.",
    ),
    "a join of nothing": (("streams:\n", "stream:\n"), "streams: is missing: join says nothing without it."),
    "a word that is misspelt": (
        ("join:", "joni:"),
        "joni: is not a key of this mapping. Did you mean 'join'?",
    ),
    "no streams": (
        (SALES[SALES.index("streams:") : SALES.index("join:")], "streams: {}\n"),
        ": 1 problem\n  streams: there are 0. Allowed: 2 to 16.",
    ),
    "too few streams": (
        (SALES[SALES.index("  payments:") : SALES.index("join:")], ""),
        "streams: there are 1. Allowed: 2 to 16.",
    ),
    "an end that is none": (("window: 2h", "emit: complete"), "join.emit: is not a key of this mapping. Write `accu"),
    "no size": (("window: 2h", "memory: much"), "join.memory: 'much' is not a size."),
    "required streams that are not joined": (
        (
            JOINED,
            "accumulate:\n  on: {payments: order_id, refunds: id}\n",
        ),
        "accumulate.on: says nothing of orders. Add for example orders: order_id.",
    ),
    "keys that another stream does not have": (
        ("{orders: order_id, payments: order_id}", "{orders: at, refunds: [order_id, amount]}"),
        "join.on: says nothing of payments. Add for example payments: at.",
    ),
    "keys that only others have": (
        ("{orders: order_id, payments: order_id}", "{payments: [order_id, amount], refunds: id}"),
        "join.on: says nothing of orders. Add its columns that must match.",
    ),
    "files that two streams read and one takes away": (
        ("path: /landing/payments", "path: /landing/x/../orders/\n    after_load: {delete_after: 7d}"),
        "streams.payments.after_load: orders and payments read the same files, in /landing/orders; payments would",
    ),
    "a lookup by a column of no stream": (
        ("fact:", 'lookups: [{relation: m.kind, "on": {order_id: id}, fetch: {sk: sk}}]\nfact:'),
        "lookups[0].on.order_id: 'order_id' is not a column of a stream. Did you mean",
    ),
    "a word of the last version": (
        ("window: 2h", "within: 2h"),
        "join.within: is not a key of this mapping. It is",
    ),
    "a column of no stream": (
        ("payments.payment_id, amount", "payments.paymentid, amount"),
        "'payments.paymentid' is neither a column of a stream nor an output of a lookup. Did you mean 'payments.",
    ),
}


def test_mistakes_of_punctuations_are_told_all_at_once(tmp_path: Path) -> None:
    wrong = (
        "window: 2h\n  punctuations: {order: unique, orders: {when: order_id}, payments: {count: orders.at}, x: unique}"
    )
    with pytest.raises(PipelineDefinitionError) as raised:
        load(tmp_path, ("window: 2h", wrong))
    for told in (
        "join.punctuations.order: is not a stream. Did you mean 'orders'?",
        "join.punctuations.orders.when: column 'order_id' of orders is of type bigint. Allowed: boolean.",
        "join.punctuations.payments.count: column 'at' of orders is of type timestamp. Allowed: bigint, int",
        "join.punctuations.x: is not a stream.",
    ):
        assert told in str(raised.value)
    for rule, told in {
        "{count: payments.amount}": "'payments.amount' is not a column of another stream. Write it as stream.column.",
        "{count: order.n}": "'order' is not a stream. Did you mean 'orders'?",
        "{count: orders.id}": "'id' is not a column of streams.orders.schema.",
        "{when: last}": "join.punctuations.payments.when: 'last' is not a column of streams.payments.schema.",
    }.items():
        with pytest.raises(PipelineDefinitionError, match=re.escape(told)):
            load(tmp_path, ("window: 2h", f"window: 2h\n  punctuations: {{payments: {rule}}}"))


def test_punctuations_that_let_no_tuple_go_are_refused(tmp_path: Path) -> None:
    refund = '  refunds: {format: json, path: /landing/refunds, schema: "id bigint, at timestamp", event_id: [id], '
    third = [
        ("join:\n", f"{refund}event_time: at}}\njoin:\n"),
        ("on: {orders: order_id,", "on: {refunds: id, orders: order_id,"),
        ("payment_id: payments.payment_id,", "payment_id: payments.payment_id, refund_id: refunds.id,"),
    ]
    with pytest.raises(PipelineDefinitionError, match="key; payments, refunds have none, so that none ever goes"):
        load(tmp_path, *third, ("window: 2h", "window: 2h\n  punctuations: {orders: unique}"))
    load(tmp_path, *third, ("window: 2h", "window: 2h\n  punctuations: {orders: unique, refunds: unique}"))


@pytest.mark.parametrize(("change", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_with_their_place(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=re.escape(told)) as raised:
        load(tmp_path, change)
    assert "source: is missing" not in str(raised.value)  # It follows from the streams.
    assert "function-" not in str(raised.value)


BAND = ("on: {orders: order_id, payments: order_id}", "on: {orders: at, payments: at}\n  match: {band: 5m}")


@pytest.mark.parametrize(
    ("on", "band", "width"),
    [("at", "5m", 300_000_000), ("amount", 0.05, 5), ("amount", "0.10", 10), ("order_id", 7, 7), ("at", "0s", 0)],
)
def test_a_band_is_as_wide_as_the_columns_count(tmp_path: Path, on: str, band: str | float, width: int) -> None:
    numbers = ("order_id bigint, at timestamp", "order_id bigint, amount decimal(12,2), at timestamp")
    between = (
        "on: {orders: order_id, payments: order_id}",
        f"on: {{orders: {on}, payments: {on}}}\n  match: {{band: {band}}}",
    )
    definition = load(tmp_path, numbers, between)
    assert definition.join is not None
    assert isinstance(definition.join.match, Band)
    assert definition.join.match.width(definition.streams["orders"].columns[on]) == width
    assert PipelineDefinition.model_validate_json(definition.model_dump_json(by_alias=True)) == definition


MATCH_MISTAKES = {
    "of no kind": (("band: 5m}", "near: 5m}"), "join.match: {'near': '5m'} is no match."),
    "without a unit": (("band: 5m", "band: 5"), "join.match: 5 has no unit; write a duration, for example 5m."),
    "below nothing": (("{band: 5m}", "{band: -5}"), "-5 has no unit"),
    "true": (
        ("band: 5m", "band: true"),
        "join.match: {'band': True} is no match. Allowed: equal, overlap, or a band such as {band: 5m}.",
    ),
    "of the column before": (
        ("{orders: at, payments: at}", "{orders: [at, order_id], payments: [at, order_id]}"),
        "join.match: '5m' is not a number, as a band of bigint is.",
    ),
    "overlap of one": (
        ("{band: 5m}", "overlap"),
        "join.match: takes two columns, from and to, after those that are equal; join.on.orders names 1.",
    ),
    "of texts": (
        ("{orders: at, payments: at}", "{orders: at, payments: payment_id}"),
        "join.match: takes values that have an order; payments.payment_id is of type string. Allowed: bigint,",
    ),
    "of columns that there are not": (
        ("{orders: at, payments: at}", "{orders: then, payments: later}"),
        "join.on.orders: 'then' is not a column of streams.orders.schema.",
    ),
    "of facts that accumulate": (
        (
            "join:\n  on: {orders: at, payments: at}\n  match: {band: 5m}\n  window: 2h",
            f"{ACCUMULATED[1]}  match: overlap",
        ),
        "accumulate.match: is not a key of this mapping. It is a key of `join`.",
    ),
    "with punctuations": (
        ("window: 2h", "window: 2h\n  punctuations: {orders: unique}"),
        "join.punctuations: say which keys are done with",
    ),
    "with most_facts": (
        ("window: 2h", "window: 2h\n  most_facts: 5"),
        "join.most_facts: counts tuples of equal keys",
    ),
}


@pytest.mark.parametrize(("change", "told"), MATCH_MISTAKES.values(), ids=MATCH_MISTAKES)
def test_mistakes_of_a_match(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=re.escape(told)):
        load(tmp_path, BAND, change)


@pytest.mark.parametrize("band", ["-5", ".inf", ".nan", "0.5", "1e30", "soon"])
def test_a_band_that_whole_numbers_do_not_have_is_refused(tmp_path: Path, band: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"join\.match: .* is not "):
        load(tmp_path, ("payments: order_id}\n", f"payments: order_id}}\n  match: {{band: {band}}}\n"))


OUTER_MISTAKES = {
    "without the ids of its parts": (
        ("payment_id: payments.payment_id, ", ""),
        "fact.columns: leaves out payments.payment_id, but with expired: emit the fact must tell which events",
    ),
    "with a lookup by what may be missing": (
        ("fact:", 'lookups: [{relation: m.kind, "on": {payments.payment_id: id}, fetch: {sk: sk}}]\nfact:'),
        "lookups[0].on.payments.payment_id: is null where the part of payments is missing",
    ),
    "without a window": (("  window: 2h\n", ""), "join.expired: is emit, but without a window no tuple of orders"),
    "without a window, with punctuations of its own only": (
        ("  window: 2h\n", "  punctuations: {orders: unique}\n"),
        "before all other streams have punctuated its key. Add for example window: 2h, or punctuations of payments.",
    ),
}


@pytest.mark.parametrize(("change", "told"), OUTER_MISTAKES.values(), ids=OUTER_MISTAKES)
def test_mistakes_of_an_outer_join(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=re.escape(told)):
        load(tmp_path, *OUTER, change)
