"""What a pipeline is: the model of the YAML files under dags/pipelines, and how they are loaded.

Imports pydantic and YAML only: Airflow reads the definitions whenever it parses a DAG file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationError,
    model_validator,
)

from spark_jobs.byte_sizes import parse_bytes
from spark_jobs.durations import parse_duration
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE
from spark_jobs.pipeline.ddl import StreamType, parse_columns
from spark_jobs.pipeline.definition_checks import inconsistencies
from spark_jobs.pipeline.definition_problems import InconsistentDefinitionError, Problem, problems_of, shown, suggestion
from spark_jobs.pipeline.definition_yaml import read_yaml
from spark_jobs.settings import HOME_VARIABLE, Home, pipelines_folder

SUFFIXES = (".yaml", ".yml")

ALGORITHMS = ("auto", *CATALOGUE)
"""What `algorithm` may be: the cost model's choice, or a name of the catalogue."""

_HOME = "${" + HOME_VARIABLE + "}"


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise ValueError(
            f"{shown(text)} is not a pipeline's name. Allowed: a small letter, then small letters, digits and _."
        )
    return text


def _table(text: str) -> str:
    if not re.fullmatch(r"[^.\0]+\.[^.\0]+", text):
        raise ValueError(f"{shown(text)} is not a table. Write schema.table, for example master.customer.")
    return text


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


def _parsed(parse: Callable[[str], Any], plain: type) -> Callable[[Any], Any]:
    """Validator of a quantity that is written as text with a unit, or is one already."""

    def validate(value: Any) -> Any:
        given = parse(value) if isinstance(value, str) else value
        if not isinstance(given, plain) or isinstance(given, bool):
            raise ValueError(f"{shown(value)} has no unit; write a number and a unit.")
        if given <= plain(0):
            raise ValueError(f"{shown(value)} is not more than nothing.")
        return given

    return validate


def _option_text(value: Any) -> Any:
    """YAML's true and 1 as Spark's reader options want them."""
    return str(value).lower() if isinstance(value, bool | int) else value


def _duration_text(value: timedelta) -> str:
    return f"{value / timedelta(milliseconds=1):.3f}".rstrip("0").rstrip(".") + "ms"


Word = Annotated[str, Field(min_length=1)]
Duration = Annotated[timedelta, BeforeValidator(_parsed(parse_duration, timedelta)), PlainSerializer(_duration_text)]
Bytes = Annotated[int, BeforeValidator(_parsed(parse_bytes, int))]
TableName = Annotated[str, AfterValidator(_table)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Source(_Part):
    """Where the events come from.

    Attributes:
        format: of the landed files: json (one object a line), parquet or csv.
        path: folder in which files arrive; `${FRESHET_HOME}` stands for the installation's home.
        schema_: Spark DDL of the events; `schema` in the file.
        event_id: columns that tell events apart; the same id twice is the same event.
        event_time: timestamp column, when the event happened; freshness is measured from it.
        options: options of Spark's reader for this format.
    """

    format: Literal["json", "parquet", "csv"] = Field(examples=["format: json"])
    path: Annotated[str, AfterValidator(_path)] = Field(examples=[f"path: {_HOME}/landing/orders"])
    schema_: Annotated[str, AfterValidator(_ddl)] = Field(
        alias="schema", examples=['schema: "id bigint, at timestamp"']
    )
    event_id: tuple[Word, ...] = Field(min_length=1, examples=["event_id: [o_orderkey]"])
    event_time: Word = Field(examples=["event_time: ordered_at"])
    options: dict[str, Annotated[str, BeforeValidator(_option_text)]] = Field(
        default={}, examples=["options: {header: true}"]
    )

    @cached_property
    def columns(self) -> dict[str, StreamType]:
        """The columns of the schema, in its order."""
        return parse_columns(self.schema_)

    def resolved_path(self, home: Home) -> Path:
        """The folder in which files arrive, for this installation."""
        return Path(self.path.replace(_HOME, str(home.root), 1))


class Default(_Part):
    """Values that stand in for the fetched ones where R has no tuple; one for each output."""

    default: dict[str, Any] = Field(min_length=1, examples=["on_unmatched: {default: {customer_sk: -1}}"])


OnUnmatched = Annotated[
    Annotated[Literal["hold", "reject"], Tag("<policy>")] | Annotated[Default, Tag("<default>")],
    Discriminator(lambda value: "<default>" if isinstance(value, dict | Default) else "<policy>"),
]


class Lookup(_Part):
    """A join of the stream with one relation R of master data.

    Attributes:
        relation: schema.table.
        on: stream column -> column of R; together they find at most one tuple of R.
        fetch: output name -> column of R.
        algorithm: one of `ALGORITHMS`.
        memory: bytes that the operator may use.
        on_unmatched: what becomes of a tuple whose key is not in R: held to be tried again, rejected, or
            loaded with default values.
    """

    relation: TableName = Field(examples=["relation: master.customer"])
    on: dict[Word, Word] = Field(min_length=1, examples=["on: {o_custkey: c_custkey}"])
    fetch: dict[Word, Word] = Field(min_length=1, examples=["fetch: {customer_sk: customer_sk}"])
    algorithm: Annotated[str, AfterValidator(_algorithm)] = Field(default="auto", examples=["algorithm: auto"])
    memory: Bytes = Field(default=64 << 20, examples=["memory: 64MB"])
    on_unmatched: OnUnmatched = Field(default="hold", examples=["on_unmatched: hold"])


class Fact(_Part):
    """The table that is loaded.

    Attributes:
        table: schema.table; it must exist, with the event id as its primary key.
        columns: column of the table -> source column or output of a lookup.
    """

    table: TableName = Field(examples=["table: warehouse.fact_orders"])
    columns: dict[Word, Word] = Field(min_length=1, examples=["columns: {order_key: o_orderkey}"])


class Freshness(_Part):
    """How soon after it happened an event shall be a fact; the time budget of a batch follows from it."""

    target: Duration = Field(default=timedelta(seconds=5), examples=["target: 5s"])


class Shedding(_Part):
    """What is done under overload: shed the costliest tuples (`considered`), or let all get late (`off`)."""

    policy: Literal["considered", "off"] = Field(default="considered", examples=["policy: considered"])


class PipelineDefinition(_Part):
    """A pipeline: events from a source, joined with relations, loaded as facts."""

    name: Annotated[str, AfterValidator(_name)] = Field(examples=["name: orders"])
    source: Source = Field(examples=["source: {format: json, path: ..., schema: ..., event_id: [..], event_time: ..}"])
    lookups: tuple[Lookup, ...] = Field(default=(), examples=["lookups: [{relation: ..., on: {..}, fetch: {..}}]"])
    fact: Fact = Field(examples=["fact: {table: warehouse.fact_orders, columns: {order_key: o_orderkey}}"])
    freshness: Freshness = Field(default=Freshness(), examples=["freshness: {target: 5s}"])
    shedding: Shedding = Field(default=Shedding(), examples=["shedding: {policy: considered}"])

    @model_validator(mode="after")
    def _check_consistency(self) -> PipelineDefinition:
        problems = list(inconsistencies(self.source, self.lookups, self.fact))
        if problems:
            raise InconsistentDefinitionError(problems)
        return self


def load_definition(name_or_path: str | Path) -> PipelineDefinition:
    """Load a pipeline by its name (a file of the pipelines folder) or by the path of its file.

    Raises:
        PipelineDefinitionError: there is no such pipeline, or its file is wrong: all problems at once, each
            with key, value, what is allowed and what to do.
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and len(path.parts) <= 1 and path.suffix not in SUFFIXES:
        path = _file_of(name_or_path)
    content = read_yaml(path)
    definition, problems = _parse(content)
    if content.get("name") != path.stem and not any(key == "name" for key, _ in problems):
        rename = f"rename the file to {content['name']}{path.suffix}"
        text = f"{content['name']!r} is not the name of its file. Write name: {path.stem}, or {rename}."
        problems.append(Problem("name", text))
    if definition is None or problems:
        lines = [f"  {key}: {text}".replace("\n", "\n      ") for key, text in problems]
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        raise PipelineDefinitionError("\n".join([f"{path}: {count}", *lines]))
    return definition


def load_definitions(folder: Path | None = None) -> dict[str, PipelineDefinition]:
    """Load all pipelines of a folder (default: the pipelines folder), by name.

    Raises:
        PipelineDefinitionError: a file is wrong; the message holds the problems of all files.
    """
    definitions, errors = {}, []
    for path in definition_files(folder):
        try:
            definitions[path.stem] = load_definition(path)
        except PipelineDefinitionError as error:
            errors.append(str(error))
    if errors:
        raise PipelineDefinitionError("\n".join(errors))
    return definitions


def definition_files(folder: Path | None = None) -> list[Path]:
    """The pipeline files of a folder (default: the pipelines folder), in order of their names."""
    folder = folder or pipelines_folder()
    if not folder.is_dir():
        raise PipelineDefinitionError(f"{folder} is no folder. Pipelines are the YAML files of $FRESHET_PIPELINES.")
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def _file_of(name: str) -> Path:
    files = {path.stem: path for path in definition_files()}
    if name not in files:
        raise PipelineDefinitionError(
            f"There is no pipeline {name!r} in {pipelines_folder()}.{suggestion(name, files)} "
            f"Pipelines: {', '.join(files) or 'none'}. Add {name}.yaml there, or name a file."
        )
    return files[name]


def _parse(content: dict[str, Any]) -> tuple[PipelineDefinition | None, list[Problem]]:
    try:
        return PipelineDefinition.model_validate(content), []
    except ValidationError as error:
        problems = list(problems_of(error, PipelineDefinition))
    # Parts that are wrong in themselves keep the model from comparing them: compare those that are right.
    lookups = content.get("lookups")
    found = inconsistencies(
        _valid(Source, content.get("source")),
        [_valid(Lookup, lookup) for lookup in lookups] if isinstance(lookups, list) else [],
        _valid(Fact, content.get("fact")) if isinstance(lookups, list | None) else None,
    )
    return None, [*problems, *(problem for problem in found if problem not in problems)]


_AnyPart = TypeVar("_AnyPart", bound=_Part)


def _valid(part: type[_AnyPart], content: Any) -> _AnyPart | None:
    try:
        return part.model_validate(content)
    except ValidationError:
        return None
