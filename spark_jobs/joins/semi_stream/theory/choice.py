"""Chooses algorithm and front stage for a stream that goes on, from what all of them are predicted to do.

A stream that is slower than the joins is settled soonest by another one than a stream that never lets them wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import stays_in_queue
from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, CACHED, PAPER_FRONT_SHARE, Prediction, predict
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.tuning import best_front_share

# Shares of memory are tuned for those that come so close to the best without it.
_WORTH_TUNING = 0.6
# An algorithm keeps up with a stream if it could work off this factor more: predictions may be off by a tenth.
_KEEPS_UP = 1.15

PREDICTABLE = tuple(name for name in ALGORITHMS if name.removeprefix(CACHED) in BACK_STAGES)


def settling_seconds(prediction: Prediction, setting: Setting, stream: StreamPopularity, arrival_rate: float) -> float:
    """Processing and waiting time (000 §3) of a stream tuple on average, where the join keeps up with the stream.

    Hits of a front stage are settled at once. Of the rest: INLJ settles one after the other, and those that find it at
    work queue up (M/D/1). MESHJOIN as the catalogue makes it goes on with the tuples that are there, and finds the
    match after half a cycle; as published it waits for chunks, see `mesh_join_waiting_seconds`. With HYBRIDJOIN, and
    whatever reads pages that are waited for, fewer tuples wait than memory holds: just enough for a load to settle what
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
    """The tuples that wait while HYBRIDJOIN settles this many a load; it takes the whole memory at its service rate."""
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


@dataclass(frozen=True)
class Choice:
    """The algorithm chosen, and why.

    Attributes:
        algorithm: its name in the catalogue.
        front_share: part of the memory for the front stage; 0 without one.
        predictions: for each algorithm that the memory allows.
        reason: one sentence for the log, which names what each alternative was predicted to give.
    """

    algorithm: str
    front_share: float
    predictions: dict[str, Prediction]
    reason: str

    @property
    def service_rate(self) -> float:
        """Predicted, in stream tuples per second."""
        return self.predictions[self.algorithm].service_rate


def choose(
    setting: Setting,
    stream: StreamPopularity,
    *,
    arrival_rate: float | None = None,
    candidates: Iterable[str] = PREDICTABLE,
) -> Choice:
    """Choose the algorithm with the highest service rate, or, of those that keep up, the one that settles soonest.

    Args:
        setting: R, memory, disk and processor.
        stream: how popular R's tuples are.
        arrival_rate: stream tuples per second; None for a stream that is faster than any algorithm.
        candidates: names in the catalogue, at least one.

    Raises:
        MemoryBudgetError: the memory is too small for every candidate.
    """
    predictions = _predictions(setting, stream, candidates)
    if arrival_rate is not None:
        seconds = {
            name: settling_seconds(prediction, setting, stream, arrival_rate)
            for name, prediction in predictions.items()
            if prediction.service_rate >= _KEEPS_UP * arrival_rate
        }
        if seconds:
            return _soonest(predictions, seconds, arrival_rate)
    rates = {name: prediction.service_rate for name, prediction in predictions.items()}
    best, *others = sorted(rates, key=lambda name: -rates[name])
    told = ", ".join(f"{_described(predictions[name])} {rates[name]:,.0f}" for name in others)
    reason = f"{_described(predictions[best])}, because it is predicted to settle {rates[best]:,.0f} tuples/s"
    return Choice(best, predictions[best].front_share, predictions, f"{reason}; {told}" if told else reason)


def _soonest(predictions: dict[str, Prediction], seconds: dict[str, float], arrival_rate: float) -> Choice:
    best, *others = sorted(seconds, key=lambda name: seconds[name])
    too_slow = sorted(predictions.keys() - seconds.keys(), key=lambda name: -predictions[name].service_rate)
    told = [f"{_described(predictions[name])} {seconds[name]:.3g} s" for name in others]
    told += [
        f"{_described(predictions[name])} only {predictions[name].service_rate:,.0f} tuples/s" for name in too_slow
    ]
    reason = (
        f"{_described(predictions[best])}, because at {arrival_rate:,.0f} tuples/s it is predicted to settle a tuple "
        f"after {seconds[best]:.3g} s; {', '.join(told)}"
    )
    return Choice(best, predictions[best].front_share, predictions, reason)


def _predictions(setting: Setting, stream: StreamPopularity, candidates: Iterable[str]) -> dict[str, Prediction]:
    predictions = {}
    for name in candidates:
        try:
            predictions[name] = predict(name, setting, stream, PAPER_FRONT_SHARE)
        except MemoryBudgetError as error:
            too_small = error
    if not predictions:
        raise too_small
    close = _WORTH_TUNING * max(prediction.service_rate for prediction in predictions.values())
    for name, prediction in predictions.items():
        if name.startswith(CACHED) and prediction.service_rate >= close:
            share = best_front_share(name, setting, stream)
            if share:
                predictions[name] = predict(name, setting, stream, share)
    return predictions


def _described(prediction: Prediction) -> str:
    if not prediction.front_share:
        return prediction.algorithm
    return f"{prediction.algorithm} with {prediction.front_share:.0%} for the front stage"
