"""Plans the lookups of a pipeline: splits their memory, cuts R into pages, measures what reading R costs."""

from __future__ import annotations

import logging

from pyspark import SparkContext

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.pipeline.back_stage import make_back_stage
from spark_jobs.pipeline.batch_context import LookupPlan, OwnedPages
from spark_jobs.pipeline.definition import Default, Lookup, PipelineDefinition
from spark_jobs.pipeline.keyed_relation import KeyedRelation
from spark_jobs.pipeline.lookup_defaults import typed_defaults
from spark_jobs.pipeline.mapped_broadcast import MappedBroadcast, unique_name
from spark_jobs.relation.calibration import measure_access
from spark_jobs.relation.page_index import DEFAULT_PAGE_ROWS
from spark_jobs.relation.page_runs import PageRuns
from spark_jobs.relation.postgres_relation import PostgresRelation
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec

_log = logging.getLogger(__name__)

# The front stage's part of a lookup's memory. The paper's best is 15 % (003, section 5.4), with whole tuples
# of R in it, and a queue that keeps the stream's misses for long. Here it holds keys and fetched columns
# alone, and the back stage is empty at the end of each batch: what more memory brings is more hits.
FRONT_STAGE_SHARE = 0.8

# A page takes at most this part of a back stage's memory: a larger page leaves too little for the queue.
LARGEST_PAGE_SHARE = 0.5
SMALLEST_PAGE_ROWS = 50

_CACHED = "cached_"
# What `auto` chooses from, batch by batch.
_AUTO = ("hybrid_join", "batched_index_nested_loop", "mesh_join", "index_nested_loop")


def front_stage_bytes(lookup: Lookup) -> int:
    """Memory of a lookup's front stage, in bytes; the workers of a host share it. 0 where there is none."""
    has_front = lookup.algorithm == "auto" or lookup.algorithm.startswith(_CACHED)
    return int(lookup.memory * FRONT_STAGE_SHARE) if has_front else 0


def plan_lookups(
    definition: PipelineDefinition,
    relations: tuple[RelationSpec, ...],
    warehouse_url: str,
    context: SparkContext,
    parts: int,
) -> tuple[LookupPlan, ...]:
    """Make the plan of every lookup of a pipeline.

    Args:
        definition: the pipeline.
        relations: its relations, as the catalog describes them.
        warehouse_url: where R is.
        context: Spark, to broadcast R's pages.
        parts: tasks that share a lookup's back stage.
    """
    return tuple(
        _plan(position, lookup, spec, warehouse_url=warehouse_url, context=context, parts=parts)
        for position, (lookup, spec) in enumerate(zip(definition.lookups, relations, strict=True))
    )


def _plan(
    position: int, lookup: Lookup, spec: RelationSpec, *, warehouse_url: str, context: SparkContext, parts: int
) -> LookupPlan:
    algorithm = lookup.algorithm.removeprefix(_CACHED)
    memory = (lookup.memory - front_stage_bytes(lookup)) // parts
    relation = _relation(algorithm, spec, warehouse_url, memory)
    _check_memory(algorithm, relation, memory)
    costs = _measured(relation, memory) if lookup.algorithm == "auto" and spec.page_refusal is None else None
    _log.info("%s: %d tuples; %s", spec.relation, spec.row_count, costs or f"algorithm {lookup.algorithm}")
    pages = None
    if spec.page_refusal is None:
        owned = OwnedPages(relation.pages, relation.pages.ranges(parts))
        pages = MappedBroadcast.publish(context, unique_name(f"pages-{position}"), 0, owned)
    return LookupPlan(
        position=position,
        spec=spec,
        algorithm=algorithm,
        front=front_stage_bytes(lookup) > 0,
        on_unmatched="default" if isinstance(lookup.on_unmatched, Default) else lookup.on_unmatched,
        defaults=typed_defaults(lookup, spec),
        back_stage_bytes=memory,
        pages=pages,
        costs=costs,
    )


def _measured(relation: PostgresRelation, memory: int) -> AccessCosts:
    """What reading R costs each of the back stages that `auto` chooses from."""
    return measure_access(relation, pages_at_once=PageRuns.within(relation, memory).pages_at_once)


def _check_memory(algorithm: str, relation: PostgresRelation, memory: int) -> None:
    """Find out now, rather than with the first tuple, whether the back stage can work with its memory."""
    paged = relation.spec.page_refusal is None
    candidates = [name for name in _AUTO if paged or not ALGORITHMS[name].reads_pages]
    pages = range(relation.page_count) if paged else range(0)
    nobody = KeyedRelation(relation, RelationRows.empty(relation.spec).keys, pages)
    for name in candidates if algorithm == "auto" else [algorithm]:
        make_back_stage(name, nobody, memory)


def _relation(algorithm: str, spec: RelationSpec, warehouse_url: str, memory: int) -> PostgresRelation:
    """R with pages that fit the back stage's memory; without pages where it can't have any.

    Raises:
        SchemaMismatchError: it can't, but the algorithm reads pages.
    """
    if spec.page_refusal is not None:
        if algorithm != "auto" and ALGORITHMS[algorithm].reads_pages:
            raise SchemaMismatchError(f"algorithm {algorithm} reads R by pages. {spec.page_refusal}")
        return PostgresRelation(warehouse_url, spec)
    fitting = int(memory * LARGEST_PAGE_SHARE) // (2 * max(spec.tuple_bytes, 1))
    return PostgresRelation.open(warehouse_url, spec, max(min(DEFAULT_PAGE_ROWS, fitting), SMALLEST_PAGE_ROWS))
