"""Predicts what any algorithm of the catalogue does in a setting: 000 equations (1) to (4), with or without a cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_jobs.joins.semi_stream.theory.front_stage_model import (
    FrontStageHits,
    front_stage_slots,
    learned_hits,
)
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import hybrid_join, longest_wait_join
from spark_jobs.joins.semi_stream.theory.index_nested_loop_model import batched_index_nested_loop, index_nested_loop
from spark_jobs.joins.semi_stream.theory.mesh_join_model import early_release_mesh_join, mesh_join, r_mesh_join
from spark_jobs.joins.semi_stream.theory.partition_wait_model import partition_wait_join
from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.semi_streamed_index_join_model import semi_streamed_index_join
from spark_jobs.joins.semi_stream.theory.setting import BackStageModel, Setting

CACHED = "cached_"
# The best share in the papers' experiments (003 §5.4), and what the catalogue's algorithms take.
PAPER_FRONT_SHARE = 0.15

BACK_STAGES: dict[str, BackStageModel] = {
    "index_nested_loop": index_nested_loop,
    "batched_index_nested_loop": batched_index_nested_loop,
    "mesh_join": mesh_join,
    "r_mesh_join": r_mesh_join,
    "early_release_mesh_join": early_release_mesh_join,
    "semi_streamed_index_join": semi_streamed_index_join,
    "partition_wait_join": partition_wait_join,
    "hybrid_join": hybrid_join,
    "longest_wait_join": longest_wait_join,
}


@dataclass(frozen=True)
class Prediction:
    """What an algorithm does with a stream that never lets it wait.

    Attributes:
        algorithm: its name in the catalogue.
        service_rate: stream tuples settled per second, mu of 000 equation (4).
        processing_seconds: from a tuple's coming into memory to its match, on average (000 §3).
        matches_per_access: w, stream tuples that an access to R settles; front stage's hits apart.
        waiting_tuples: stream tuples that memory holds, h_S.
        hit_ratio: part of the stream that the front stage settles; 0 without one.
        front_share: part of the memory that the front stage takes.
    """

    algorithm: str
    service_rate: float
    processing_seconds: float
    matches_per_access: float
    waiting_tuples: float
    hit_ratio: float = 0.0
    front_share: float = 0.0


def predict(
    algorithm: str, setting: Setting, stream: StreamPopularity, front_share: float = PAPER_FRONT_SHARE
) -> Prediction:
    """Predict an algorithm's service rate and processing time.

    A front stage probes every stream tuple, and settles hits for c_S + c_O; the rest costs what the back stage makes
    of the memory and the popularity that are left, and what it costs to offer it to the front stage.

    Args:
        algorithm: its name in the catalogue.
        setting: R, memory, disk and processor.
        stream: how popular R's tuples are.
        front_share: part of the memory for the front stage, of an algorithm that has one.

    Raises:
        MemoryBudgetError: the memory does not hold a page and one stream tuple.
        KeyError: there is no model of such an algorithm.
    """
    model = BACK_STAGES[algorithm.removeprefix(CACHED)]
    processor = setting.processor
    front = FrontStageHits(0.0, 0.0, 0.0)
    front_seconds = upkeep_per_access = upkeep_per_miss = 0.0
    if algorithm.startswith(CACHED):
        slots = front_stage_slots(setting.memory_bytes * front_share, setting.tuple_bytes)
        front = learned_hits(stream, slots)
        front_seconds = processor.front_probe + front.hit_ratio * (processor.read + processor.emit)
        upkeep_per_access, upkeep_per_miss = processor.upkeep_per_access, processor.upkeep_per_miss
        setting = replace(setting, memory_bytes=setting.memory_bytes * (1 - front_share))
    else:
        front_share = 0.0
    if front.hit_ratio >= 1:
        rate = 1 / front_seconds if front_seconds else float("inf")
        return Prediction(algorithm, rate, 0.0, 0.0, 0.0, 1.0, front_share)
    back = model(setting, stream, front.cached_keys)
    upkeep = upkeep_per_miss + upkeep_per_access / back.matches_per_access
    seconds = front_seconds + (1 - front.hit_ratio) * (back.seconds_per_tuple + upkeep)
    # Little's law; hits are settled at once.
    return Prediction(
        algorithm,
        1 / seconds,
        back.unsettled_tuples * seconds,
        back.matches_per_access,
        back.waiting_tuples,
        front.hit_ratio,
        front_share,
    )
