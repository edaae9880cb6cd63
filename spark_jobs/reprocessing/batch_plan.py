"""The Spark side of a reprocessing run: what all its chunks share, and the way that each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.definition import Lookup, PipelineDefinition
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.driver.lookups.planning import plan_lookups
from spark_jobs.hot_set.publishing import FrontStagePlan
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.reprocessing.held_reading import held_tuples, read_back
from spark_jobs.reprocessing.settlement import ReprocessingRun
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.reports import BatchReport, ReportChannel
from spark_jobs.stages.tuples_way import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_FRONT = FrontStagePlan(None, most_offers=0, count_hits=False)


class BatchPlan:
    """Sends chunks of held tuples through the lookups of a pipeline, all of a chunk at once.

    Args:
        session: the Spark session.
        definition: the pipeline.
        tables: its tables.
        warehouse_url: libpq URL of the warehouse.
        algorithm: `auto`, or a name of the catalogue, for every lookup that can take it: one whose R can't be read by
            pages keeps to `auto` where the algorithm reads pages.
        run: where the tasks bring what they have settled.
    """

    def __init__(
        self,
        session: SparkSession,
        definition: PipelineDefinition,
        tables: PipelineTables,
        warehouse_url: str,
        algorithm: str,
        run: ReprocessingRun,
    ) -> None:
        session.range(1).collect()  # a cluster's cores are known only when its executors have come
        self.parts = session.sparkContext.defaultParallelism
        self._session = session
        self._source = definition.source
        self._url = warehouse_url
        self._reports = ReportChannel(session.sparkContext)
        self._received: list[TaskReport] = []
        lookups = tuple(
            _with_algorithm(lookup, spec, algorithm)
            for lookup, spec in zip(definition.lookups, tables.relations, strict=True)
        )
        plans = plan_lookups(
            definition.model_copy(update={"lookups": lookups}),
            tables.relations,
            warehouse_url,
            session.sparkContext,
            self.parts,
            fronts=False,
        )
        self._context = BatchContext(
            warehouse_url=warehouse_url,
            destination=run,
            parts=self.parts,
            lookups=plans,
            fronts=(_NO_FRONT,) * len(plans),
            back_stage_seconds=None,
        )

    def settle(self, conditions: Sequence[str]) -> None:
        """Settle a chunk.

        Args:
            conditions: SQL condition on freshet.held_tuple AS h of each task's slice.
        """
        slices = self._session.range(0, len(conditions), 1, len(conditions))
        held = held_tuples(slices, self._url, conditions, self._source)
        try:
            settle(held, read_back(self._context.destination.fact), self._context, self._reports.send)
        finally:
            self._received += self._reports.receive()

    def statistics(self) -> dict[str, Any]:
        """Figures of all chunks so far, as the ledger keeps them (JSON)."""
        return BatchReport(self._received).statistics(self._context.lookups)


def _with_algorithm(lookup: Lookup, spec: RelationSpec, algorithm: str) -> Lookup:
    fits = algorithm == "auto" or spec.page_refusal is None or not ALGORITHMS[algorithm].reads_pages
    return lookup.model_copy(update={"algorithm": algorithm if fits else "auto"})
