"""A warm-up of every pipeline that a definition allows: whatever types its columns have, whatever keys R has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import extensions

from spark_jobs.columns.keys.values import KEY_KINDS
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import TYPE_NAMES, parse_columns
from spark_jobs.driver.checks import check_tables
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.join_state.bucket import BucketPlan, BucketStream
from spark_jobs.joins.stream_stream.predicates import Overlap
from spark_jobs.loading.outcome import Outcome
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.warm_up import WarmUp as Destination
from spark_jobs.stages.warm_up import WarmUpTransaction, warm_up, warm_up_bucket

STREAM_TYPES = {
    **{name: name.replace("(n)", "(7)") for name in TYPE_NAMES if name != "decimal(p,s)"},
    **{name: name for name in ("decimal(1,1)", "decimal(4,4)", "decimal(12,2)", "decimal(38,0)", "decimal(38,38)")},
}
FACT_TYPES = {
    "int": "integer", "tinyint": "smallint", "float": "real", "double": "double precision", "string": "text",
    "timestamp": "timestamptz", "binary": "bytea",
}  # fmt: skip
NO_EVENT_ID = ("float", "double", "binary")

# Values of R by the type of its key: the first is one that every stream can have, as far as there is one.
KEYS = {
    "int2": ("7", "-32768", "32767"),
    "int4": ("7", "-2147483648", "2147483647"),
    "int8": ("7", "2147483648", "-9223372036854775808"),
    "date": ("2026-03-01", "infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"),
    "text": ("ä", "", "x" * 300),
    "varchar": ("ä", ""),
    "bpchar": ("ä", "a  "),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
}
RANGES = {name: range(-(2**bits), 2**bits) for name, bits in (("smallint", 15), ("int", 31), ("bigint", 63))}


@dataclass(frozen=True)
class Watched(Destination):
    """Notes how many facts each part of the warm-up has."""

    facts: list[int] = field(default_factory=list)

    def transaction(self, part: Outcome) -> WarmUpTransaction:
        self.facts.append(0 if part.facts is None else part.facts.num_rows)
        return super().transaction(part)


@pytest.fixture(scope="module")
def connection(postgres_database: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(postgres_database)) as connection:
        connection.autocommit = True
        yield connection


def execute(connection: extensions.connection, statements: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statements, parameters or None)


def context_of(connection: extensions.connection, url: str, **definition: Any) -> tuple[BatchContext, dict[str, Any]]:
    """The context of a warm-up of a pipeline without pages of R, and the columns of its source."""
    source = {"format": "json", "path": "/landing", "event_time": "at", **definition.pop("source")}
    stated = {"name": "typed", "source": source, "freshness": {"target": "5s"}, **definition}
    pipeline = PipelineDefinition.model_validate(stated)
    tables = check_tables(connection, pipeline)
    plans = tuple(
        LookupPlan(number, spec, "auto", True, "hold", {}, 1 << 20, None, None)
        for number, spec in enumerate(tables.relations)
    )
    fronts = tuple(FrontStagePlan(None, 100, True) for _ in plans)
    context = BatchContext(url, Watched(tables.event, tables.fact), 2, plans, fronts, None)
    return context, {name: kind.arrow() for name, kind in pipeline.tuples.columns.items()}


def keyed(connection: extensions.connection, url: str, stream: str) -> tuple[BatchContext, dict[str, Any]]:
    """The same of a pipeline that looks tuples up in `r` by its column `key`, by one of the stream of that type."""
    execute(connection, "DROP TABLE IF EXISTS fact; CREATE TABLE fact (id bigint PRIMARY KEY, fetched integer)")
    return context_of(
        connection,
        url,
        source={"schema": f"id bigint, at timestamp, k {stream}", "event_id": ["id"]},
        lookups=[{"relation": "public.r", "on": {"k": "key"}, "fetch": {"fetched": "fetched"}}],
        fact={"table": "public.fact", "columns": {"id": "id", "fetched": "fetched"}},
    )


def comes_to_facts(context: BatchContext, columns: dict[str, Any]) -> bool:
    """Whether a warm-up, which meets no error, has facts: tuples that match in every lookup."""
    assert warm_up(context, columns) is None
    assert isinstance(context.destination, Watched)
    return any(context.destination.facts)


def relation(connection: extensions.connection, kind: str, *keys: str | None) -> None:
    """Make `r`, with these keys of that type."""
    declared = "char(5)" if kind == "bpchar" else kind
    execute(connection, f"DROP TABLE IF EXISTS r; CREATE TABLE r (key {declared} UNIQUE, fetched integer)")
    execute(connection, "INSERT INTO r SELECT unnest(%s::text[])::" + declared + ", 1", list(keys))


PAIRS = [
    (kind, stream)
    for kind, compares_as in KEY_KINDS.items()
    for stream in STREAM_TYPES
    if compares_as.accepts(parse_columns(f"k {STREAM_TYPES[stream]}")["k"].arrow())
    and stream != "tinyint"  # no join key's type
]


def test_the_pairs_are_those_of_every_kind_of_key() -> None:
    assert {kind for kind, _ in PAIRS} == set(KEY_KINDS) == set(KEYS)
    assert len(PAIRS) == 3 * 3 + 1 + 4 * 2


@pytest.mark.parametrize(("kind", "stream"), PAIRS)
def test_tuples_match_whatever_key_r_has_if_the_stream_can_have_it_too(
    connection: extensions.connection, postgres_database: str, kind: str, stream: str
) -> None:
    for key in KEYS[kind]:
        relation(connection, kind, key)
        context, columns = keyed(connection, postgres_database, STREAM_TYPES[stream])
        possible = stream not in RANGES or int(key) in RANGES[stream]
        assert comes_to_facts(context, columns) == possible, key


@pytest.mark.parametrize("keys", [(None, "70000", "7"), (None,), ()])
def test_a_key_that_the_stream_can_have_is_looked_for(
    connection: extensions.connection, postgres_database: str, keys: tuple[str | None, ...]
) -> None:
    relation(connection, "int8", *keys)
    context, columns = keyed(connection, postgres_database, "smallint")
    assert comes_to_facts(context, columns) == ("7" in keys)


@pytest.mark.parametrize("stream", STREAM_TYPES)
def test_a_source_may_have_columns_and_event_ids_of_every_type(
    connection: extensions.connection, postgres_database: str, stream: str
) -> None:
    kind = "text" if stream.startswith("varchar") else FACT_TYPES.get(stream, stream)
    execute(connection, "DROP TABLE IF EXISTS fact")
    event_id = "id" if stream in NO_EVENT_ID else "value"
    execute(connection, f"CREATE TABLE fact (id bigint, value {kind}, PRIMARY KEY ({event_id}))")
    context, columns = context_of(
        connection,
        postgres_database,
        source={"schema": f"id bigint, at timestamp, value {STREAM_TYPES[stream]}", "event_id": [event_id]},
        fact={"table": "public.fact", "columns": {"id": "id", "value": "value"}},
    )
    assert comes_to_facts(context, columns)


def test_an_error_of_the_warm_up_itself_is_told_and_one_that_a_batch_would_meet_is_raised(
    connection: extensions.connection, postgres_database: str
) -> None:
    relation(connection, "int8", "7")
    context, columns = keyed(connection, postgres_database, "bigint")
    fault = warm_up(context, {**columns, "nested": pa.list_(pa.int8())})
    assert fault is not None
    assert "ArrowNotImplementedError" in fault
    execute(connection, "ALTER TABLE r ALTER fetched TYPE bigint")
    with pytest.raises(SchemaMismatchError, match="has another type now"):
        warm_up(context, columns)
    execute(connection, "DROP TABLE r")
    with pytest.raises(psycopg2.errors.UndefinedTable):
        warm_up(context, columns)


@pytest.mark.parametrize("kind", ["tinyint", "bigint", "date", "timestamp", "decimal(12,2)", "decimal(4,4)"])
def test_a_bucket_of_intervals_is_warmed_up(kind: str) -> None:
    kinds = parse_columns(f"low {kind}, high {kind}, id string, at timestamp")
    columns = {name: each.arrow() for name, each in kinds.items()}
    streams = (
        BucketStream("a", (), ("id",), "at", matched=("low", "high")),
        BucketStream("b", (), ("id",), "at", matched=("low", "high")),
    )
    plan = BucketPlan(streams, None, "auto", 1 << 22, predicate=Overlap())
    assert warm_up_bucket(plan, [columns, columns]) is None
