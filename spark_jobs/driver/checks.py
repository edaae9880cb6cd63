"""Checks a pipeline against the warehouse before its stream starts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.definition import Default, Lookup, PipelineDefinition
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.relation.catalog.describe import describe_relation
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.fact_table_check import describe_fact_table


@dataclass(frozen=True)
class PipelineTables:
    """What the warehouse's catalogue says of a pipeline's tables."""

    event: EventColumns
    relations: tuple[RelationSpec, ...]
    fact: FactTable


def check_tables(connection: extensions.connection, definition: PipelineDefinition) -> PipelineTables:
    """Describe the pipeline's relations and fact table.

    Raises:
        SchemaMismatchError: at least one does not fit the pipeline; all problems of all tables at once.
    """
    tuple_types: dict[str, pa.DataType] = {name: kind.arrow() for name, kind in definition.source.columns.items()}
    problems: list[str] = []
    relations: list[RelationSpec] = []
    for lookup in definition.lookups:
        try:
            spec = describe_relation(connection, lookup, tuple_types)
            typed_defaults(lookup, spec)
        except SchemaMismatchError as error:
            problems.append(str(error))
        else:
            relations.append(spec)
            tuple_types |= {field.name: field.type for field in spec.fetched_schema}
    if not problems:  # without the relations the fetched columns' types are unknown
        try:
            fact = describe_fact_table(connection, definition, tuple_types)
        except SchemaMismatchError as error:
            problems.append(str(error))
    if problems:
        raise SchemaMismatchError(f"Pipeline {definition.name} does not fit the warehouse.\n" + "\n".join(problems))
    return PipelineTables(EventColumns.of(definition.name, definition.source), tuple(relations), fact)


def typed_defaults(lookup: Lookup, spec: RelationSpec) -> dict[str, pa.Scalar]:
    """Convert the defaults of a lookup's YAML; empty where it has none.

    Raises:
        SchemaMismatchError: a value does not fit its column's type; all such values at once.
    """
    if not isinstance(lookup.on_unmatched, Default):
        return {}
    values, problems = {}, []
    for field in spec.fetched_schema:
        value = lookup.on_unmatched.default[field.name]
        try:
            values[field.name] = _scalar(value, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            problems.append(
                f"lookup of {lookup.relation}: default {value!r} of {field.name} is no {field.type}. "
                f"Write a value of the type of the relation's column {lookup.fetch[field.name]}, or null."
            )
    if problems:
        raise SchemaMismatchError("\n".join(problems))
    return values


def _scalar(value: Any, wanted: pa.DataType) -> pa.Scalar:
    if value is None:
        return pa.scalar(None, wanted)
    if pa.types.is_decimal(wanted):
        return pa.scalar(_decimal(value), wanted)
    if isinstance(value, str) or pa.types.is_string(wanted):
        return pa.scalar(str(value)).cast(wanted)
    return pa.scalar(value, wanted)


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
