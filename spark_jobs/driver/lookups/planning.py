"""Plans the lookups of a pipeline: splits their memory, cuts R into pages, measures what reading R costs."""

from __future__ import annotations

import logging

from pyspark import SparkContext

from spark_jobs.definition import Default, Lookup, PipelineDefinition
from spark_jobs.driver.lookups.defaults import typed_defaults
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.relation.access_costs import measure_access
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.page_index import DEFAULT_PAGE_ROWS
from spark_jobs.relation.read_limit import tuples_at_once
from spark_jobs.relation.relation_part import RelationPart
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.relation.stored_relation import StoredRelation
from spark_jobs.stages.back_stage import back_stages, make_back_stage
from spark_jobs.stages.batch_context import LookupPlan, OwnedPages
from spark_jobs.stages.mapped_broadcast import MappedBroadcast, unique_name

_log = logging.getLogger(__name__)

# The front stage's part of a lookup's memory. The paper's best is 15 % (003, section 5.4), with whole tuples
# of R in it, and a queue that keeps the stream's misses for long. Here it holds keys and fetched columns
# alone, and the back stage is empty at the end of each batch: what more memory brings is more hits.
FRONT_STAGE_SHARE = 0.8

# A page takes at most this part of a back stage's memory: a larger page leaves too little for the queue.
LARGEST_PAGE_SHARE = 0.5
SMALLEST_PAGE_ROWS = 50

_CACHED = "cached_"


def front_stage_bytes(lookup: Lookup) -> int:
    """Memory of a lookup's front stage, in bytes; the workers of a host share it. 0 where there is none."""
    has_front = lookup.algorithm == "auto" or lookup.algorithm.startswith(_CACHED)
    return int(lookup.memory * FRONT_STAGE_SHARE) if has_front else 0


def back_stage_bytes(lookup: Lookup) -> int:
    """Memory of a lookup's back stages, of all tasks together, in bytes."""
    return lookup.memory - front_stage_bytes(lookup)


def page_rows_within(spec: RelationSpec, memory: int) -> int:
    """Tuples of a page of R that fits a back stage's memory, in bytes."""
    fitting = int(memory * LARGEST_PAGE_SHARE) // (2 * max(spec.tuple_bytes, 1))
    return max(min(DEFAULT_PAGE_ROWS, fitting), SMALLEST_PAGE_ROWS)


def page_rows_allowed(page_rows: int, task_limit: float | None) -> int:
    """Tuples of a page that may be read at once, `page_rows` at most.

    Args:
        page_rows: as many as fit.
        task_limit: tuples of R that one task may read in a second; None: any number.
    """
    return page_rows if task_limit is None else max(min(page_rows, tuples_at_once(task_limit)), SMALLEST_PAGE_ROWS)


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
    algorithm = lookup.algorithm.removeprefix(_CACHED)
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
