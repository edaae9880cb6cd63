"""What a pipeline is: the model of the YAML files under dags/pipelines.

This room imports pydantic and YAML only: Airflow reads the definitions whenever it parses a DAG file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from spark_jobs.definition.accumulate import Accumulate
from spark_jobs.definition.consistency import inconsistencies
from spark_jobs.definition.fields import Bytes, Duration, Part, Rate, TableName, Word
from spark_jobs.definition.former_spelling import HINT, in_present_spelling
from spark_jobs.definition.join import Join
from spark_jobs.definition.operation import Freshness, Reprocessing, Retention, Shedding, Validation
from spark_jobs.definition.problems import InconsistentDefinitionError, shown, suggestion
from spark_jobs.definition.shapes import (
    SHAPES,
    AccumulatedStreams,
    JoinedStreams,
    OneStream,
    Shape,
    Tuples,
    shape_problems,
)
from spark_jobs.definition.source import Source
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE

ALGORITHMS = ("auto", *CATALOGUE)
"""What `algorithm` may be: the cost model's choice, or a name of the catalogue."""
_MOST_STREAMS = 16


def _name_of(what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
            allowed = "Allowed: a small letter, then small letters, digits and _."
            raise ValueError(f"{shown(text)} is not a {what}'s name. {allowed}")
        return text

    return AfterValidator(check)


def _several(streams: dict[str, Source]) -> dict[str, Source]:
    if not 2 <= len(streams) <= _MOST_STREAMS:
        raise ValueError(f"there are {len(streams)}. Allowed: 2 to {_MOST_STREAMS}.")
    return streams


Streams = Annotated[dict[Annotated[str, _name_of("stream")], Source], AfterValidator(_several)]


def _algorithm(text: str) -> str:
    if text not in ALGORITHMS:
        allowed = f"Allowed: {', '.join(ALGORITHMS)}."
        raise ValueError(f"{shown(text)} is not allowed.{suggestion(text, ALGORITHMS)} {allowed}")
    return text


class Default(Part):
    """Values that stand in for the fetched ones where R has no tuple; one for each output."""

    default: dict[str, Any] = Field(min_length=1, examples=["on_unmatched: {default: {customer_sk: -1}}"])


OnUnmatched = Annotated[
    Annotated[Literal["hold", "reject"], Tag("<policy>")] | Annotated[Default, Tag("<default>")],
    Discriminator(lambda value: "<default>" if isinstance(value, dict | Default) else "<policy>"),
]


class Lookup(Part):
    """A join of the stream with one relation R of master data.

    Attributes:
        relation: schema.table.
        on: stream column -> column of R; together they find at most one tuple of R.
        fetch: output name -> column of R.
        algorithm: one of `ALGORITHMS`.
        as_of: `event_time` for a relation that keeps every version of its tuples (SCD2): an event finds the version
            that was valid when it happened. Without it a key has one tuple of R.
        validity: with `as_of`: R's columns from when and until when (not included; null: still) a version is valid.
        memory: bytes for keys and fetched columns of R's most frequent tuples, which the workers of a host share
            (four fifths of it; of all its tuples, where they fit), and for the stream tuples that wait for the others.
        read: R itself (`live`), or the copy of it that the last cache rebuild made (`snapshot`).
        read_limit: tuples of R that all tasks together may read in a second; None: as many as they can.
        notice_changes: how soon a change of R reaches the facts, at the latest.
        on_unmatched: what becomes of a tuple whose key is not in R: held to be tried again, rejected, or
            loaded with default values.
    """

    relation: TableName = Field(examples=["relation: master.customer"])
    on: dict[Word, Word] = Field(min_length=1, examples=["on: {o_custkey: c_custkey}"])
    fetch: dict[Word, Word] = Field(min_length=1, examples=["fetch: {customer_sk: customer_sk}"])
    as_of: Literal["event_time"] | None = Field(default=None, examples=["as_of: event_time"])
    validity: tuple[Word, Word] | None = Field(default=None, examples=["validity: [valid_from, valid_to]"])
    algorithm: Annotated[str, AfterValidator(_algorithm)] = Field(default="auto", examples=["algorithm: auto"])
    memory: Bytes = Field(default=64 << 20, examples=["memory: 64MB"])
    read: Literal["live", "snapshot"] = Field(default="live", examples=["read: live"])
    read_limit: Rate | None = Field(default=None, examples=["read_limit: 5000/s"])
    notice_changes: Duration = Field(default=timedelta(seconds=10), examples=["notice_changes: 10s"])
    on_unmatched: OnUnmatched = Field(default="hold", examples=["on_unmatched: hold"])


class Fact(Part):
    """The table that is loaded.

    Attributes:
        table: schema.table; it must exist, with the event id as its primary key.
        columns: column of the table -> source column or output of a lookup; or `_batch_no`, the number of the batch
            or reprocessing run that stored the fact, or that filled it in last (`accumulate`).
        on_refused: what to do where the table refuses most of a chunk for one reason, say a CHECK or a missing
            partition: block the stream until the table is fixed, or reject the tuples.
    """

    table: TableName = Field(examples=["table: warehouse.fact_orders"])
    columns: dict[Word, Word] = Field(min_length=1, examples=["columns: {order_key: o_orderkey}"])
    on_refused: Literal["block", "reject"] = Field(default="block", examples=["on_refused: block"])


class PipelineDefinition(Part):
    """A pipeline: events from a source, or of several streams that become facts together; looked up, and loaded.

    It has one of three shapes: `source`; or `streams` and `join`; or `streams` and `accumulate`.

    Attributes:
        name: the pipeline's.
        driver: name of the driver that loads it. Pipelines that name the same one share a process, its memory and its
            cores, and nothing else. None: a driver of its own, which is called as the pipeline is.
        source: where the events come from.
        streams_: several streams, by name.
        join: how the streams are joined: events that match become a fact when all parts are there.
        accumulate: what key the streams have in common: a fact has one row for each key, which later parts fill in.
    """

    hints: ClassVar[Mapping[str, str]] = {"correlate": HINT}

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": list(keys)} for keys in SHAPES]})

    name: Annotated[str, _name_of("pipeline")] = Field(examples=["name: orders"])
    driver: Annotated[str, _name_of("driver")] | None = Field(default=None, examples=["driver: shop"])
    source: Source | None = Field(
        default=None, examples=["source: {format: json, path: ..., schema: ..., event_id: [..], event_time: ..}"]
    )
    streams_: Streams | None = Field(
        default=None, alias="streams", examples=["streams: {orders: {format: json, ...}, payments: {...}}"]
    )
    join: Join | None = Field(default=None, examples=["join: {on: {orders: id, payments: order_id}, window: 2h}"])
    accumulate: Accumulate | None = Field(
        default=None, examples=["accumulate: {on: {orders: id, payments: order_id}, required: [orders]}"]
    )
    lookups: tuple[Lookup, ...] = Field(default=(), examples=["lookups: [{relation: ..., on: {..}, fetch: {..}}]"])
    fact: Fact = Field(examples=["fact: {table: warehouse.fact_orders, columns: {order_key: o_orderkey}}"])
    freshness: Freshness = Field(default=Freshness(), examples=["freshness: {target: 5s}"])
    shedding: Shedding = Field(default=Shedding(), examples=["shedding: {policy: considered}"])
    reprocessing: Reprocessing = Field(default=Reprocessing(), examples=["reprocessing: {limit: 1000000}"])
    validation: Validation = Field(default=Validation(), examples=["validation: {every: 5m}"])
    retention: Retention = Field(default=Retention(), examples=["retention: {ledger: 30d}"])

    @property
    def driver_name(self) -> str:
        """Name of the driver that loads it: the one that it shares with others, or its own."""
        return self.driver or self.name

    @property
    def shape(self) -> Shape:
        """What it does with its streams."""
        shape = shape_of(self.source, self.streams_, self.join, self.accumulate)
        assert shape is not None  # `_check_consistency` has seen to it.
        return shape

    @property
    def streams(self) -> Mapping[str, Source]:
        """Where its events come from, by stream; the only stream of a pipeline is called nothing."""
        return self.shape.streams

    @property
    def tuples(self) -> Tuples:
        """The tuples that become facts."""
        return self.shape.tuples

    @property
    def connections(self) -> set[str]:
        """Ids of the Airflow connections that its streams ask for."""
        return {connection for source in self.streams.values() for connection in source.connections}

    @model_validator(mode="before")
    @classmethod
    def _reads_former_spelling(cls, content: Any) -> Any:
        return in_present_spelling(content)

    @model_validator(mode="after")
    def _check_consistency(self) -> PipelineDefinition:
        parts = {"source": self.source, "streams": self.streams_, "join": self.join, "accumulate": self.accumulate}
        problems = list(shape_problems([key for key, part in parts.items() if part is not None]))
        if not problems:
            shape, expectations = self.shape, self.validation.expectations
            problems += inconsistencies(shape.streams, shape.tuples, self.lookups, self.fact, expectations)
            unsound = list(shape.problems())
            problems += unsound or shape.fact_problems(self.fact, self.lookups)
        if problems:
            raise InconsistentDefinitionError(problems)
        return self


def shape_of(
    source: Source | None,
    streams: Mapping[str, Source] | None,
    join: Join | None,
    accumulate: Accumulate | None,
) -> Shape | None:
    """The shape that these parts make together; None where they make none."""
    if source is not None:
        return OneStream(source)
    if streams and join is not None:
        return JoinedStreams(streams, join)
    if streams and accumulate is not None:
        return AccumulatedStreams(streams, accumulate)
    return None
