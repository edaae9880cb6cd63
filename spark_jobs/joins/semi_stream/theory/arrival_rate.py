"""How soon a stream tuple is settled when the stream is slower than the join could be."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.theory.hybrid_join_model import stays_in_queue
from spark_jobs.joins.semi_stream.theory.prediction import CACHED, Prediction
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity


def settling_seconds(prediction: Prediction, setting: Setting, stream: StreamPopularity, arrival_rate: float) -> float:
    """Processing and waiting time (000 §3) of a stream tuple on average, where the join keeps up with the stream.

    Hits of a front stage are settled at once. Of the rest: INLJ settles one after the other, and those that find it at
    work queue up (M/D/1). MESHJOIN as the catalogue makes it goes on with the tuples that are there, and finds the
    match after half a cycle; as published it waits for chunks, see `mesh_join_waiting_seconds`. With HYBRIDJOIN, and
    whatever reads pages that are waited for, fewer tuples wait than memory holds: just so many that a load settles what
    comes meanwhile.

    Args:
        prediction: of an algorithm whose service rate is above the arrival rate.
        setting: with the whole memory.
        stream: before any front stage.
        arrival_rate: lambda, stream tuples per second.
    """
    missed = 1 - prediction.hit_ratio
    if not missed:
        return 0.0
    back_rate = arrival_rate * missed
    algorithm = prediction.algorithm.removeprefix(CACHED)
    if "index_nested_loop" in algorithm:
        busy = arrival_rate / prediction.service_rate
        return missed * (1 + busy / (2 * (1 - busy))) * busy / back_rate
    loads_per_second = (1 - back_rate * setting.processor.per_joined_tuple) / setting.page_seconds
    needed = back_rate / loads_per_second
    if "mesh_join" in algorithm:
        return missed * setting.page_count / loads_per_second / 2
    return missed * _queue_that_gives(needed, prediction, setting, stream) / back_rate


def _queue_that_gives(
    matches_per_load: float, prediction: Prediction, setting: Setting, stream: StreamPopularity
) -> float:
    """The tuples that wait while HYBRIDJOIN settles so many a load; it takes the whole memory at its service rate."""
    popularity = stream.pages(setting.page_rows, 0 if not prediction.hit_ratio else _cached_keys(prediction, stream))
    return increasing_root(
        lambda waiting: stays_in_queue(popularity, waiting).matches_per_load - matches_per_load,
        1.0,
        prediction.waiting_tuples,
        1e-3,
    )


def _cached_keys(prediction: Prediction, stream: StreamPopularity) -> float:
    every = stream.keys().page_counts.sum()
    return increasing_root(lambda keys: stream.share_of_hottest(keys) - prediction.hit_ratio, 0.0, every, 1e-3)
