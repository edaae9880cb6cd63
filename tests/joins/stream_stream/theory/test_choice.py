"""The algorithm that is chosen is the one that the models find best, with its reason."""

from __future__ import annotations

import pytest

from spark_jobs.joins.stream_stream import ALGORITHMS, PredicateKind
from spark_jobs.joins.stream_stream.theory.choice import Workload, choose

MEMORY = 1 << 20


@pytest.mark.parametrize(
    ("workload", "algorithm", "reason"),
    [
        (Workload(2, "equality", 1_000), "x_join", "fit into memory"),
        (Workload(2, "equality", 1_000_000), "x_join", "tells 5% of the results at once"),
        (Workload(2, "equality", 1_000, punctuated=True), "p_join", "Punctuations"),
        (Workload(5, "equality", 1_000, complete=0.01), "am_join", "1.04 looks with bit vectors and 1.45"),
        (Workload(5, "equality", 1_000, complete=1.0), "m_join", "5.00 looks with bit vectors and 4.00"),
        (Workload(3, "band", 1_000), "progressive_merge_join", "Only sorting"),
        (Workload(2, "overlap", 1_000, validity=True), "temporal_join", "fit into memory, which holds 14,563"),
        (Workload(4, "overlap", 60_000, validity=True), "temporal_progressive_merge_join", "exceed memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_best_is_chosen_and_says_why(workload: Workload, algorithm: str, reason: str) -> None:
    chosen = choose(workload, MEMORY)
    assert chosen.algorithm == algorithm
    assert reason in chosen.reason
    assert chosen.reason.endswith(".")


@pytest.mark.parametrize("predicate", ["equality", "overlap", "band", "own"])
@pytest.mark.parametrize("validity", [False, True])
@pytest.mark.parametrize("streams", [2, 16])
def test_whatever_is_chosen_can_do_it(streams: int, predicate: PredicateKind, validity: bool) -> None:
    for kept in (10, 10**9):
        chosen = ALGORITHMS[choose(Workload(streams, predicate, kept, validity), MEMORY).algorithm]
        assert predicate in chosen.predicates
        assert streams <= chosen.most_streams
        assert chosen.validity == validity


def test_windows_far_larger_than_memory_are_merged() -> None:
    chosen = choose(Workload(2, "equality", 10**9, validity=True), 1 << 22)
    assert chosen.algorithm == "temporal_progressive_merge_join"


def test_more_streams_than_any_algorithm_joins_are_refused() -> None:
    with pytest.raises(ValueError, match="from 2 to 16 streams"):
        choose(Workload(17, "equality", 1_000), MEMORY)
