"""Where a stream's events come from: a source, of one kind (`kinds`), whose records have one format (`formats`).

A source takes the keys of all kinds and formats that are registered; `take_registered` makes them fields of the model.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator
from pydantic.fields import FieldInfo

from spark_jobs.definition.ddl import StreamType, parse_columns
from spark_jobs.definition.fields import OptionText, Part, Word
from spark_jobs.definition.formats import FORMATS, FormatFacts
from spark_jobs.definition.kinds import KINDS, KindFacts
from spark_jobs.definition.kinds.files import AfterLoad
from spark_jobs.errors import PipelineDefinitionError


def _ddl(text: str) -> str:
    try:
        parse_columns(text)
    except PipelineDefinitionError as error:
        raise ValueError(str(error)) from None
    return text


class Source(Part):
    """Where the events come from.

    Attributes:
        schema_: Spark DDL of the events; `schema` in the file.
        event_id: columns that tell events apart; the same id twice is the same event.
        event_time: timestamp column, when the event happened; freshness is measured from it.
        options: how the files are written, where the format leaves that open, and what one that is packed may become
            (spark_jobs/source/records/README.md).
        envelope: `debezium` where records are changes of rows: rows that were inserted are the stream tuples.
        after_load: what becomes of files that are loaded.
    """

    format: str
    schema_: Annotated[str, AfterValidator(_ddl)] = Field(
        alias="schema", examples=['schema: "id bigint, at timestamp"']
    )
    event_id: tuple[Word, ...] = Field(min_length=1, examples=["event_id: [o_orderkey]"])
    event_time: Word = Field(examples=["event_time: ordered_at"])
    options: dict[str, OptionText] = Field(default={}, examples=["options: {header: true}"])
    envelope: Literal["debezium"] | None = Field(default=None, examples=["envelope: debezium"])
    after_load: AfterLoad = Field(default="keep", examples=["after_load: keep"])
    # They go along to tasks, which may not have what is registered here.
    _kind: KindFacts = PrivateAttr()
    _record_format: FormatFacts = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _place_is_event_id(cls, content: Any) -> Any:
        if isinstance(content, dict) and "event_id" not in content:
            for kind in KINDS.values():
                if kind.place and content.get(kind.key) is not None:
                    return {**content, "event_id": list(kind.place)}
        return content

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Source:
        kinds = [kind for kind in KINDS.values() if getattr(self, kind.key) is not None]
        if len(kinds) != 1:
            choice = ", or ".join(f"{kind.key}: {kind.meaning}" for kind in KINDS.values())
            raise ValueError(f"Write {choice}; one of {'both' if len(KINDS) == 2 else 'these'}.")
        [self._kind] = kinds
        self._record_format = FORMATS[self.format]
        return self

    @property
    def kind(self) -> KindFacts:
        """What holds of all sources of its kind."""
        return self._kind

    @property
    def settings(self) -> Any:
        """What it says under the key of its kind: what it reads."""
        return getattr(self, self._kind.key)

    @property
    def record_format(self) -> FormatFacts:
        """What holds of all records of its format."""
        return self._record_format

    @property
    def format_settings(self) -> Any:
        """What it says under the key of its format; None where the format has none, or nothing is said."""
        key = self._record_format.key
        return None if key is None else getattr(self, key)

    @cached_property
    def columns(self) -> dict[str, StreamType]:
        """The columns of a tuple: those of the schema, in its order, and those that the kind adds."""
        return self.record_columns | dict(self.kind.columns)

    @cached_property
    def record_columns(self) -> dict[str, StreamType]:
        """The columns that a record's bytes hold: those of the schema, in its order."""
        return parse_columns(self.schema_)

    @property
    def is_known_by_place(self) -> bool:
        """Whether an event's id says where its record lies, so that it is known although nothing of the record is."""
        return set(self.event_id) <= set(self.kind.place)

    @property
    def connections(self) -> tuple[str, ...]:
        """Ids of the Airflow connections that it asks for."""
        return (*self.kind.connections(self), *self.record_format.connections(self))


_OWN = dict(Source.__pydantic_fields__)


def take_registered() -> None:
    """Make the keys of all kinds and formats fields of a source, behind its format and before all others.

    Whoever registers one later calls this again, and rebuilds the models that have sources in them.
    """
    told = "How records are written."
    for kind in KINDS.values():
        allowed = ", ".join(each.name for each in FORMATS.values() if kind.bears in each.borne_by)
        told += f" Of {kind.records}: {allowed}{kind.of_formats}."
    names: Any = Literal[tuple(FORMATS)]
    field = Field(description=told, examples=["format: json"])
    fields = {"format": FieldInfo.from_annotated_attribute(names, field)}
    for kind in KINDS.values():
        fields[kind.key] = _optional(kind.settings, kind.description, kind.example, is_stored_unset=True)
    for each in FORMATS.values():
        if each.key is not None:
            fields[each.key] = _optional(
                each.settings, each.description, each.example, is_stored_unset=each.is_stored_unset
            )
    Source.__pydantic_fields__.clear()
    Source.__pydantic_fields__.update({**fields, **{name: _OWN[name] for name in _OWN if name not in fields}})
    Source.model_rebuild(force=True)


def _optional(settings: Any, description: str, example: str, *, is_stored_unset: bool) -> FieldInfo:
    left_out = None if is_stored_unset else lambda value: value is None
    field = Field(default=None, description=description, examples=[example], exclude_if=left_out)
    return FieldInfo.from_annotated_attribute(settings | None, field)


take_registered()
