"""The Spark side of a reprocessing run: what all its chunks share, and the way that each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.definition import Lookup, PipelineDefinition
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.planning import plan_lookups
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.reprocessing.held_reading import HeldReader
from spark_jobs.reprocessing.settlement import ReprocessingRun
from spark_jobs.secret_text import SecretText
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.batch_job import front_stage, settle
from spark_jobs.stages.reports import BatchReport, ReportChannel

if TYPE_CHECKING:
    from pyspark import SparkContext

_NO_FRONT = FrontStagePlan(None, most_offers=0, count_hits=False)


class BatchPlan:
    """Sends chunks of held tuples through the lookups of a pipeline, all of a chunk at once.

    Args:
        spark: runs the tasks.
        definition: the pipeline.
        tables: its tables.
        warehouse_url: libpq URL of the warehouse.
        algorithm: `auto`, or a name of the catalogue, for every lookup that can take it: one whose R can't be read by
            pages keeps to `auto` where the algorithm reads pages.
        run: where the tasks bring what they have settled.
    """

    def __init__(
        self,
        spark: SparkContext,
        definition: PipelineDefinition,
        tables: PipelineTables,
        warehouse_url: str,
        algorithm: str,
        run: ReprocessingRun,
    ) -> None:
        spark.parallelize([0], 1).count()  # a cluster's cores are known only when its executors have come
        self.parts = spark.defaultParallelism
        self._spark = spark
        self._read = HeldReader(SecretText(warehouse_url), RecordDecoder.of(definition.source), run.fact)
        self._reports = ReportChannel(spark)
        self._received: list[TaskReport] = []
        lookups = tuple(
            _with_algorithm(lookup, spec, algorithm)
            for lookup, spec in zip(definition.lookups, tables.relations, strict=True)
        )
        plans = plan_lookups(
            definition.model_copy(update={"lookups": lookups}),
            tables.relations,
            warehouse_url,
            spark,
            self.parts,
            fronts=False,
        )
        self._context = BatchContext(
            warehouse_url=SecretText(warehouse_url),
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
        tasks = [[condition] for condition in conditions]
        try:
            read = front_stage(self._spark, tasks, self._read, self._context, self._reports.send)
            settle(read, self._context, self._reports.send, shuffle=True)
        finally:
            self._received += self._reports.receive()

    def statistics(self) -> dict[str, Any]:
        """Figures of all chunks so far, as the ledger keeps them (JSON)."""
        return BatchReport(self._received).statistics(self._context.lookups)


def _with_algorithm(lookup: Lookup, spec: RelationSpec, algorithm: str) -> Lookup:
    fits = algorithm == "auto" or spec.page_refusal is None or not ALGORITHMS[algorithm].reads_pages
    return lookup.model_copy(update={"algorithm": algorithm if fits else "auto"})
