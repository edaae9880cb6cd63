"""The columns of an accumulating fact table that the parts of one stream fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.definition.joined_tuple import COMPLETED_AT, qualified
from spark_jobs.definition.stream_tuple import BATCH_NO, EventColumns
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

if TYPE_CHECKING:
    from spark_jobs.definition import PipelineDefinition
    from spark_jobs.definition.shapes import AccumulatedStreams


@dataclass(frozen=True)
class PartTable:
    """The fact table as the parts of one stream see it. Picklable: Spark's tasks get it from the driver.

    Attributes:
        stream: its name.
        required: whether its parts make rows.
        event: the stream's event columns, by their names in the stream.
        table: the fact table with the columns that a part fills, the key among them; their sources are the joined
            tuple's columns, `stream.column`.
        event_id: the columns that the part's event id goes into, in its order.
        presence: a column that is null until the part is there; None where the row itself is the part's.
        latest: columns that get the time of the event that happened last.
    """

    stream: str
    required: bool
    event: EventColumns
    table: FactTable
    event_id: tuple[FactColumn, ...]
    presence: str | None
    latest: frozenset[str]

    @property
    def event_time(self) -> str:
        """The joined tuple's column with the time of the part's event."""
        return qualified(self.stream, self.event.event_time)

    @property
    def filled(self) -> tuple[FactColumn, ...]:
        """The columns that a part fills in a row that is there already."""
        return tuple(column for column in self.table.columns if column.name not in self.table.event_id)

    def named_in_stream(self, columns: Iterable[FactColumn]) -> tuple[FactColumn, ...]:
        """Some of the columns, with the names that their sources have in the stream itself."""
        own = {qualified(self.stream, name): name for name in self.event.source_columns}
        return tuple(replace(column, source=own[column.source]) for column in columns)


@dataclass(frozen=True)
class AccumulatingTable:
    """A fact table whose rows are filled in part by part. Picklable.

    Attributes:
        fact: the table.
        parts: what the parts of each stream fill, in the order of the definition.
    """

    fact: FactTable
    parts: tuple[PartTable, ...]

    @classmethod
    def of(cls, definition: PipelineDefinition, shape: AccumulatedStreams, fact: FactTable) -> AccumulatingTable:
        """The table of a pipeline of this shape."""
        return cls(fact, part_tables(definition, shape, fact))

    @property
    def rows(self) -> FactTable:
        """The table as rows are made for it: any part's key may fill the key's columns, so they have own sources."""
        sources = {name: f"_key_{position}" for position, name in enumerate(self.fact.event_id)}
        columns = [replace(column, source=sources.get(column.name, column.source)) for column in self.fact.columns]
        return replace(self.fact, columns=tuple(columns))

    @property
    def maker(self) -> PartTable:
        """The stream whose key the definition names, and for whose parts lookups are made."""
        return next(part for part in self.parts if part.table.key == self.fact.key)

    @property
    def required(self) -> str:
        """The streams whose parts make rows, for messages."""
        return " or ".join(part.stream for part in self.parts if part.required)


def part_tables(definition: PipelineDefinition, shape: AccumulatedStreams, fact: FactTable) -> tuple[PartTable, ...]:
    """The part of the fact table that each stream fills, in the order of the definition.

    Args:
        definition: of a pipeline.
        shape: its shape.
        fact: its fact table.
    """
    return tuple(_part_table(definition, shape, fact, name) for name in shape.streams)


def _part_table(definition: PipelineDefinition, shape: AccumulatedStreams, fact: FactTable, stream: str) -> PartTable:
    source = shape.streams[stream]
    own = {qualified(stream, name) for name in source.columns}
    if stream == shape.required[0]:
        own |= {output for lookup in definition.lookups for output in lookup.fetch}
    key = [
        replace(column, source=qualified(stream, name)) for column, name in zip(fact.key, shape.on[stream], strict=True)
    ]
    filled, latest = [], set()
    for column in fact.columns:
        if column.name in fact.event_id:
            continue
        if column.source == COMPLETED_AT:
            latest.add(column.name)
            filled.append(replace(column, source=qualified(stream, source.event_time)))
        elif column.source in own or column.source == BATCH_NO:
            filled.append(column)
    event_id = tuple(_event_id_column(qualified(stream, name), filled, key) for name in source.event_id)
    return PartTable(
        stream,
        stream in shape.required,
        EventColumns.of(definition.name, source),
        FactTable(fact.schema, fact.table, (*key, *filled), fact.event_id, fact.on_refused),
        event_id,
        None if shape.required == (stream,) else next(column.name for column in event_id if column in filled),
        frozenset(latest),
    )


def _event_id_column(source: str, filled: list[FactColumn], key: list[FactColumn]) -> FactColumn:
    """The column that a column of the event id goes into; rather one that is null until then than one of the key."""
    return next(column for column in (*filled, *key) if column.source == source)


def nullable_complaints(parts: tuple[PartTable, ...]) -> Iterator[str]:
    """Columns that a row can't be without, although the part that they come from may be missing."""
    for part in parts:
        if part.presence is None:
            continue
        for column in part.filled:
            if not column.nullable and column.name not in part.latest and column.source != BATCH_NO:
                yield (
                    f"column {column.name} is NOT NULL, but gets {column.source}, which is not there until its part "
                    f"is; ALTER COLUMN {column.name} DROP NOT NULL"
                )
