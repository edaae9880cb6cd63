"""The fact table of a pipeline: the driver describes it, tasks load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from psycopg2 import sql

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType, Target


@dataclass(frozen=True)
class FactColumn:
    """A column that the pipeline loads.

    Attributes:
        name: in the fact table.
        source: the stream tuple's column that it gets its values from.
        source_type: arrow type of that column.
        type: its type in PostgreSQL.
        nullable: whether it takes nulls.
    """

    name: str
    source: str
    source_type: pa.DataType
    type: PostgresType
    nullable: bool


@dataclass(frozen=True)
class FactTable:
    """The table that a pipeline loads. Picklable: Spark's tasks get it from the driver.

    Attributes:
        schema: its schema.
        table: its name.
        columns: the columns that the pipeline loads.
        event_id: names of the key's columns, in the order of the pipeline's event id.
        on_refused: what to do where the table refuses most of what is loaded, for one reason.
    """

    schema: str
    table: str
    columns: tuple[FactColumn, ...]
    event_id: tuple[str, ...]
    on_refused: Literal["block", "reject"] = "block"

    @property
    def key(self) -> tuple[FactColumn, ...]:
        """The key's columns, in the order of the pipeline's event id."""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.event_id)

    @property
    def targets(self) -> list[Target]:
        """The columns as the encoder wants them."""
        return [Target(column.name, column.source, column.type, column.nullable) for column in self.columns]

    @property
    def key_is_gone(self) -> str:
        """What is wrong where `has_key` does not hold any more, and what to do."""
        columns = ", ".join(self.event_id)
        return (
            f"{self.schema}.{self.table} has lost its key: no valid unique index has exactly the columns ({columns}), "
            f"so an event that is sent twice would be stored twice. Nothing is loaded until it is back: ALTER TABLE "
            f"{self.schema}.{self.table} ADD PRIMARY KEY ({columns})."
        )

    @property
    def identifier(self) -> sql.Identifier:
        """The table's name for use in SQL."""
        return sql.Identifier(self.schema, self.table)


def has_key(schema: str, table: str, key: Sequence[str]) -> sql.Composable:
    """SQL condition: a valid unique index of exactly these columns keeps an event id from being stored twice."""
    return sql.SQL(
        "EXISTS (SELECT FROM pg_index WHERE indisunique AND indisvalid AND indimmediate AND indpred IS NULL "
        "AND indexprs IS NULL AND indnkeyatts = {count} "
        "AND indrelid = to_regclass(quote_ident({schema}) || '.' || quote_ident({table})) "
        "AND {count} = (SELECT count(*) FROM pg_attribute WHERE attrelid = indrelid "
        "AND attname = ANY ({key}) AND attnum = ANY ((indkey::int2[])[0:{last}])))"
    ).format(
        schema=sql.Literal(schema),
        table=sql.Literal(table),
        key=sql.Literal(list(key)),
        count=sql.Literal(len(key)),
        last=sql.Literal(len(key) - 1),
    )
