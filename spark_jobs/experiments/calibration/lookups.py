"""Measures what the relations of pipelines cost to read and to join with, without starting a stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.checks import check_tables
from spark_jobs.experiments.calibration.relation_costs import RelationCosts, calibrate_in_postgres
from spark_jobs.warehouse.connection import connect


def calibrate_lookups(definitions: Sequence[PipelineDefinition], warehouse_url: str) -> list[RelationCosts]:
    """Measure the relation of every lookup, one after the other. A second or two each.

    Args:
        definitions: the pipelines.
        warehouse_url: where their relations are.

    Raises:
        SchemaMismatchError: a relation or the fact table does not fit its pipeline, or can't be read by pages.
    """
    measured = []
    for definition in definitions:
        with closing(connect(warehouse_url)) as connection:
            relations = check_tables(connection, definition).relations
        for lookup, spec in zip(definition.lookups, relations, strict=True):
            measured.append(calibrate_in_postgres(warehouse_url, spec, lookup.memory))
    return measured
