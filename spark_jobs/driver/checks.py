"""Checks a pipeline against the warehouse before its stream starts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.planning.typed_defaults import typed_defaults
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.relation_spec import RelationSpec
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
