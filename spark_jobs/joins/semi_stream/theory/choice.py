"""Chooses algorithm and front stage for a stream that goes on, from what all of them are predicted to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.arrival_rate import settling_seconds
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, CACHED, PAPER_FRONT_SHARE, Prediction, predict
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.tuning import best_front_share

# Shares of memory are tuned for those that come so close to the best without it.
_WORTH_TUNING = 0.6
# An algorithm keeps up with a stream if it could work off so much more: predictions may be off by a tenth.
_KEEPS_UP = 1.15

PREDICTABLE = tuple(name for name in ALGORITHMS if name.removeprefix(CACHED) in BACK_STAGES)


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
