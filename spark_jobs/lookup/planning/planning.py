"""Plans the lookups of a pipeline: splits their memory, cuts R into pages, measures what reading R costs."""

from __future__ import annotations

import logging

from pyspark import SparkContext

from spark_jobs.definition import Default, Lookup, PipelineDefinition
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.lookup.hot_keys.publishing import MappedBroadcast, unique_name
from spark_jobs.lookup.planning.lookup_plan import LookupPlan, OwnedPages
from spark_jobs.lookup.planning.memory import CACHED, front_stage_bytes, page_rows_allowed, page_rows_within
from spark_jobs.lookup.planning.typed_defaults import typed_defaults
from spark_jobs.lookup.relation.access_costs import measure_access
from spark_jobs.lookup.relation.back_stage_join import back_stages, make_back_stage
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.lookup.relation.stored_relation import RelationPart, StoredRelation

_log = logging.getLogger(__name__)


def plan_lookups(
    definition: PipelineDefinition,
    relations: tuple[RelationSpec, ...],
    warehouse_url: str,
    context: SparkContext,
    parts: int,
    *,
    fronts: bool = True,
) -> tuple[LookupPlan, ...]:
    """Make the plan of every lookup of a pipeline.

    Args:
        definition: the pipeline.
        relations: its relations, as the catalog describes them.
        warehouse_url: where R is.
        context: Spark, to broadcast R's pages.
        parts: tasks that share a lookup's back stage.
        fronts: whether front stages may take part of the memory. They pay where tuples keep coming: a load that
            reads R once for all its tuples gives its back stages everything.
    """
    return tuple(
        _plan(position, lookup, spec, warehouse_url=warehouse_url, context=context, parts=parts, fronts=fronts)
        for position, (lookup, spec) in enumerate(zip(definition.lookups, relations, strict=True))
    )


def _plan(
    position: int,
    lookup: Lookup,
    spec: RelationSpec,
    *,
    warehouse_url: str,
    context: SparkContext,
    parts: int,
    fronts: bool,
) -> LookupPlan:
    algorithm = lookup.algorithm.removeprefix(CACHED)
    front_bytes = front_stage_bytes(lookup) if fronts else 0
    memory = (lookup.memory - front_bytes) // parts
    task_limit = lookup.read_limit / parts if lookup.read_limit is not None else None
    relation = _relation(algorithm, spec, warehouse_url, memory, task_limit)
    check_memory(algorithm, relation, memory)
    costs = measured(relation, memory) if lookup.algorithm == "auto" and spec.page_refusal is None else None
    if costs is not None and task_limit is not None:
        costs = costs.limited(task_limit, relation.pages.page_rows)
    _log.info("%s: %d tuples; %s", spec.relation, spec.row_count, costs or f"algorithm {lookup.algorithm}")
    pages = None
    if spec.page_refusal is None:
        owned = OwnedPages(relation.pages, relation.pages.ranges(parts))
        pages = MappedBroadcast.publish(context, unique_name(f"pages-{position}"), 0, owned)
    return LookupPlan(
        position=position,
        spec=spec,
        algorithm=algorithm,
        front=front_bytes > 0,
        on_unmatched="default" if isinstance(lookup.on_unmatched, Default) else lookup.on_unmatched,
        defaults=typed_defaults(lookup, spec),
        back_stage_bytes=memory,
        pages=pages,
        costs=costs,
        read_limit=lookup.read_limit,
    )


def measured(relation: StoredRelation, memory: int) -> AccessCosts:
    """What reading R costs each of the back stages that `auto` chooses from."""
    return measure_access(relation, pages_at_once=RelationPart.whole(relation).in_runs(memory).pages_at_once)


def check_memory(algorithm: str, relation: StoredRelation, memory: int) -> None:
    """Find out now, rather than with the first tuple, whether the back stage can work with its memory."""
    for name in back_stages(algorithm, relation.spec.page_refusal is None):
        make_back_stage(name, RelationPart.whole(relation), memory)


def _relation(
    algorithm: str, spec: RelationSpec, warehouse_url: str, memory: int, task_limit: float | None
) -> LiveRelation:
    """R with pages that fit the back stage's memory, and its limit; without pages where it can't have any.

    Raises:
        SchemaMismatchError: it can't, but the algorithm reads pages.
    """
    if spec.page_refusal is not None:
        if algorithm != "auto" and ALGORITHMS[algorithm].reads_pages:
            raise SchemaMismatchError(f"algorithm {algorithm} reads R by pages. {spec.page_refusal}")
        return LiveRelation(warehouse_url, spec)
    page_rows = page_rows_allowed(page_rows_within(spec, memory), task_limit)
    return LiveRelation.open(warehouse_url, spec, page_rows)
