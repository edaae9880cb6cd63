"""What a pipeline is: the model of the YAML files under dags/pipelines.

This room imports pydantic and YAML only: Airflow reads the definitions whenever it parses a DAG file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from spark_jobs.definition.accumulate import Accumulate
from spark_jobs.definition.avro import Avro
from spark_jobs.definition.consistency import inconsistencies
from spark_jobs.definition.ddl import StreamType, parse_columns
from spark_jobs.definition.fields import Bytes, Duration, OptionText, Part, Rate, TableName, Word
from spark_jobs.definition.former_spelling import in_present_spelling
from spark_jobs.definition.join import Join
from spark_jobs.definition.kafka import KAFKA_COLUMNS, PLACE_COLUMNS, Kafka
from spark_jobs.definition.operation import Freshness, Reprocessing, Retention, Shedding, Validation
from spark_jobs.definition.problems import InconsistentDefinitionError, shown, suggestion
from spark_jobs.definition.shapes import AccumulatedStreams, JoinedStreams, OneStream, Shape, Tuples, shape_problems
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE
from spark_jobs.settings import HOME_VARIABLE, Home

ALGORITHMS = ("auto", *CATALOGUE)
"""What `algorithm` may be: the cost model's choice, or a name of the catalogue."""

_HOME = "${" + HOME_VARIABLE + "}"


def _name_of(what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
            allowed = "Allowed: a small letter, then small letters, digits and _."
            raise ValueError(f"{shown(text)} is not a {what}'s name. {allowed}")
        return text

    return AfterValidator(check)


def _algorithm(text: str) -> str:
    if text not in ALGORITHMS:
        allowed = f"Allowed: {', '.join(ALGORITHMS)}."
        raise ValueError(f"{shown(text)} is not allowed.{suggestion(text, ALGORITHMS)} {allowed}")
    return text


def _ddl(text: str) -> str:
    try:
        parse_columns(text)
    except PipelineDefinitionError as error:
        raise ValueError(str(error)) from None
    return text


def _path(text: str) -> str:
    rest = text.removeprefix(_HOME)
    if not rest.startswith("/"):
        raise ValueError(f"{shown(text)} is not an absolute path of a folder. Start it with / or {_HOME}/.")
    if re.search(r"[][*?{}$\0]", rest):
        raise ValueError(f"{shown(text)} holds one of *?[]{{}}$. Write the folder itself; only {_HOME} is expanded.")
    return text


class Removal(Part):
    """What becomes of a landed file once it is loaded; one of both.

    Attributes:
        archive: folder that it is moved to.
        delete_after: how long after that it is deleted; longer than an asynchronous replica that may take over can lag.
    """

    archive: Annotated[str, AfterValidator(_path)] | None = Field(
        default=None, examples=[f"after_load: {{archive: {_HOME}/archive/orders}}"]
    )
    delete_after: Duration | None = Field(default=None, examples=["after_load: {delete_after: 7d}"])

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Removal:
        if (self.archive is None) == (self.delete_after is None):
            raise ValueError("Write archive: a folder, or delete_after: a duration; one of both.")
        return self

    def archive_folder(self, home: Home) -> Path | None:
        """The folder that loaded files are moved to, for this installation."""
        return None if self.archive is None else Path(self.archive.replace(_HOME, str(home.root), 1))


AfterLoad = Annotated[
    Annotated[Literal["keep"], Tag("<policy>")] | Annotated[Removal, Tag("<removal>")],
    Discriminator(lambda value: "<removal>" if isinstance(value, dict | Removal) else "<policy>"),
]


class Source(Part):
    """Where the events come from.

    Attributes:
        format: of landed files: json (one object a line), parquet or csv; json and csv also as .gz and .zst. Of Kafka:
            json or avro.
        path: folder in which files arrive; `${FRESHET_HOME}` stands for the installation's home.
        kafka: the topic that they are read from; one of path and kafka.
        schema_: Spark DDL of the events; `schema` in the file.
        event_id: columns that tell events apart; the same id twice is the same event. Of Kafka, where it is left out:
            topic, partition and offset.
        event_time: timestamp column, when the event happened; freshness is measured from it.
        options: how the files are written, where the format leaves that open, and what one that is packed may become
            (spark_jobs/source/records/README.md).
        avro: of format avro, where the schemas are.
        envelope: `debezium` where records are changes of rows: rows that were inserted are the stream tuples.
        after_load: what becomes of files that are loaded.
    """

    format: Literal["json", "parquet", "csv", "avro"] = Field(examples=["format: json"])
    path: Annotated[str, AfterValidator(_path)] | None = Field(default=None, examples=[f"path: {_HOME}/landing/orders"])
    kafka: Kafka | None = Field(default=None, examples=["kafka: {servers: localhost:9092, topic: orders}"])
    schema_: Annotated[str, AfterValidator(_ddl)] = Field(
        alias="schema", examples=['schema: "id bigint, at timestamp"']
    )
    event_id: tuple[Word, ...] = Field(min_length=1, examples=["event_id: [o_orderkey]"])
    event_time: Word = Field(examples=["event_time: ordered_at"])
    options: dict[str, OptionText] = Field(default={}, examples=["options: {header: true}"])
    avro: Avro | None = Field(default=None, examples=["avro: {registry: http://localhost:8081}"])
    envelope: Literal["debezium"] | None = Field(default=None, examples=["envelope: debezium"])
    after_load: AfterLoad = Field(default="keep", examples=["after_load: keep"])

    @model_validator(mode="before")
    @classmethod
    def _place_is_event_id(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("kafka") is not None and "event_id" not in content:
            return {**content, "event_id": list(PLACE_COLUMNS)}
        return content

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Source:
        if (self.path is None) == (self.kafka is None):
            raise ValueError("Write path: the folder in which files arrive, or kafka: a topic; one of both.")
        return self

    @model_validator(mode="after")
    def _archives_elsewhere(self) -> Source:
        if self.path is None:
            return self
        if isinstance(self.after_load, Removal) and self.after_load.archive is not None:
            archive, landing = (posixpath.normpath(path) for path in (self.after_load.archive, self.path))
            if archive == landing:
                raise ValueError(f"after_load.archive is the landing folder itself, {landing}. Write another folder.")
        return self

    @cached_property
    def columns(self) -> dict[str, StreamType]:
        """The columns of a tuple: those of the schema, in its order, and of Kafka those of the record."""
        return self.record_columns | (KAFKA_COLUMNS if self.kafka is not None else {})

    @cached_property
    def record_columns(self) -> dict[str, StreamType]:
        """The columns that a record's bytes hold: those of the schema, in its order."""
        return parse_columns(self.schema_)

    @property
    def is_known_by_place(self) -> bool:
        """Whether an event's id says where its record lies, so that it is known although nothing of the record is."""
        return self.kafka is not None and set(self.event_id) <= set(PLACE_COLUMNS)

    @property
    def connections(self) -> tuple[str, ...]:
        """Ids of the Airflow connections that it asks for."""
        ids = (part.connection for part in (self.kafka, self.avro) if part is not None)
        return tuple(each for each in ids if each is not None)

    def resolved_path(self, home: Home) -> Path:
        """The folder in which files arrive, for this installation; not of Kafka."""
        assert self.path is not None
        return Path(self.path.replace(_HOME, str(home.root), 1))


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

    name: Annotated[str, _name_of("pipeline")] = Field(examples=["name: orders"])
    driver: Annotated[str, _name_of("driver")] | None = Field(default=None, examples=["driver: shop"])
    source: Source | None = Field(
        default=None, examples=["source: {format: json, path: ..., schema: ..., event_id: [..], event_time: ..}"]
    )
    streams_: dict[Annotated[str, _name_of("stream")], Source] | None = Field(
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
