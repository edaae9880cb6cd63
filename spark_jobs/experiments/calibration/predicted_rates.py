"""What the cost models make of measured constants: the service rate of each algorithm."""

from __future__ import annotations

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.calibration.relation_costs import RelationCosts
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, CACHED, predict
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import ZipfStream


def predicted_rates(costs: RelationCosts, exponent: float) -> dict[str, float]:
    """Stream tuples joined per second by each algorithm whose model is known, if the stream never lets it wait.

    Popular tuples lie anywhere in R. Algorithms for which the memory does not suffice are left out.

    Args:
        costs: what was measured.
        exponent: skew of the stream, by Zipf's law; 0 is none.
    """
    setting = Setting(
        costs.row_count, costs.tuple_bytes, costs.page_rows, costs.memory_bytes, costs.reading.costs, costs.processor
    )
    stream = ZipfStream(costs.row_count, exponent, shuffled=True)
    rates = {}
    for algorithm in ALGORITHMS:
        if algorithm.removeprefix(CACHED) not in BACK_STAGES or not costs.row_count:
            continue
        try:
            rates[algorithm] = predict(algorithm, setting, stream).service_rate
        except MemoryBudgetError:
            continue
    return rates
