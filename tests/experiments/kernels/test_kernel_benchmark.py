"""The kernel benchmark: what its figures say, and that its experiments measure what they name."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from rich.console import Console

from spark_jobs.experiments.kernels import (
    first_call,
    hit_ratio,
    page_loads,
    punctuated_joins,
    record_decoding,
    sketch_updates,
    topic_reading,
)
from spark_jobs.experiments.kernels.hash_joins import Growing, whole
from spark_jobs.experiments.kernels.kernel_benchmark import render
from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved
from spark_jobs.experiments.kernels.multi_way_looks import HeldStreams
from spark_jobs.experiments.kernels.own_work import FullJoin, Work, fitted
from spark_jobs.experiments.kernels.queue_lengths import FullQueue
from spark_jobs.experiments.kernels.temporal_joins import WindowedRun
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.emission import OutputOrdered
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.source.landed import planned


def test_a_figure_is_the_median_and_knows_whether_its_target_is_met() -> None:
    slow = MeasuredFigure.of("probes", [10.0, 30.0, 20.0], "probes/s", 25.0, "least")
    assert (slow.reached, slow.low, slow.high, slow.met) == (20.0, 10.0, 30.0, False)
    assert MeasuredFigure.of("work", [10.0], "ns", 25.0).met
    assert MeasuredFigure.of("work", [10.0], "ns").met is None
    assert json.loads(json.dumps(slow.to_json()))["met"] is False


def test_the_table_shows_target_and_verdict() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    figures = [
        MeasuredFigure.of("probes", [2e7], "probes/s", 2.5e7, "least"),
        MeasuredFigure.of("work", [10.0], "ns", 25.0),
    ]
    console.print(render(figures, repeats=3))
    shown = console.export_text()
    assert ">= 25M" in shown
    assert "missed" in shown
    assert "<= 25" in shown


def test_cases_take_turns_after_a_round_that_does_not_count() -> None:
    order: list[str] = []

    def case(name: str) -> int:
        order.append(name)
        return len(order)

    observed = interleaved({name: lambda name=name: case(name) for name in "ab"}, repeats=2)
    assert "".join(order) == "ababab"
    assert observed == {"a": [3, 5], "b": [4, 6]}


def test_the_fit_finds_the_parts_that_the_work_is_made_of() -> None:
    random = np.random.default_rng(1)
    counts = random.integers(1, 10_000, (12, 3)).tolist()
    works = [Work(a, b, c, (120 * a + 3 * b + 7000 * c) * 1e-9) for a, b, c in counts]
    assert fitted(works) == pytest.approx((120, 3, 7000))


@pytest.mark.parametrize("algorithm", ["hybrid_join", "mesh_join"])
def test_a_saturated_run_settles_as_many_tuples_as_come(algorithm: str) -> None:
    run = FullJoin(algorithm, 5_000, 10_000, 100)
    pending = run.join.pending
    work = run.stretch()
    assert work.stream_tuples > 10_000
    assert work.page_tuples == 100 * work.steps
    assert work.seconds > 0
    assert run.join.pending == pytest.approx(pending, rel=0.1)


def test_a_queue_stays_full_while_it_is_turned_over() -> None:
    queue = FullQueue(20_000)
    assert min(queue.turn_over()) > 0
    assert len(queue._waiting) == 20_000
    queue._waiting.check()


@pytest.mark.parametrize("exponent", [1.0, 1.2])
def test_the_front_stage_hits_nearly_as_often_as_the_oracle(exponent: float) -> None:
    assert 0.97 <= hit_ratio.hits_by_oracle(exponent, seed=1, learning=1_000_000, measured=300_000) <= 1.01


@pytest.mark.parametrize("algorithm", page_loads.ALGORITHMS)
def test_no_join_loads_fewer_pages_than_the_clairvoyant(algorithm: str) -> None:
    loads, bound = page_loads.loads_and_bound(algorithm, 1.0, seed=1, stream_tuples=100_000)
    assert loads >= bound > 0


def test_a_fresh_process_joins_its_first_tuple_without_making_the_compiler_ready() -> None:
    [call] = first_call.first_calls(1)
    assert call.seconds > 0
    assert not call.made_compiler_ready


def test_sketches_of_each_shape_are_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch_updates, "_VALUES", 1_000)
    monkeypatch.setattr(sketch_updates, "_BASIC_VALUES", 100)
    figures = sketch_updates.measure(1)
    assert [figure.target for figure in figures] == [20e6, 20e6, 20e6, None]
    assert all(figure.reached > 0 for figure in figures)


def test_decoding_reads_orders_of_each_format_and_most_of_them_are_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_decoding, "RECORDS", 2_000)
    for name, write in record_decoding.FILES.items():
        path, source = write(tmp_path)
        arrivals = list(read_slice(planned(path), RecordDecoder.of(source)))
        assert sum(each.records for each in arrivals) == 2_000
        sound = sum(each.tuples.num_rows for each in arrivals)
        assert 1_900 < sound < 2_000 if "malformed" in name else sound == 2_000


def test_topics_are_read_in_each_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_decoding, "RECORDS", 500)
    assert all(figure.reached > 0 for figure in topic_reading.measure(1))


def test_each_tuple_of_the_hash_join_benchmark_finds_one_match() -> None:
    assert Growing(4_000).nanoseconds() > 0


def test_a_join_of_whole_streams_charges_the_disk_for_what_memory_does_not_hold() -> None:
    in_memory, spilled = whole("symmetric_hash_join", 1.0, 20_000), whole("x_join", 0.2, 20_000)
    assert (in_memory.disk, in_memory.early) == (0.0, 1.0)
    assert spilled.disk > 0
    assert 0 < spilled.early < 1


@pytest.mark.parametrize("predicate", [Equality(), Overlap(), Band(50)], ids=str)
def test_a_temporal_join_is_measured_with_full_windows_and_one_partner_a_tuple(predicate: Predicate) -> None:
    run = WindowedRun(10_000, predicate, OutputOrdered())
    before, counts = run.join.statistics.early, run.join.statistics
    arrived = counts.arrived
    assert run.stretch() > 0
    assert (counts.early - before) / (counts.arrived - arrived) == pytest.approx(1, rel=0.1)
    assert run.join.tuples_in_memory() == pytest.approx(10_000, rel=0.01)


@pytest.mark.parametrize("make", [AMJoin, MJoin])
def test_tuples_without_a_partner_cost_am_join_one_look(make: type[AMJoin] | type[MJoin]) -> None:
    held = HeldStreams(make, 20_000)
    assert held.round() > 0
    filled = held._filled()
    filled.bring(10_000)
    counts = filled._join.statistics
    assert (counts.early, counts.probes) == (0, 30_000)


@pytest.mark.parametrize("punctuated", get_args(punctuated_joins.Punctuated))
def test_punctuations_leave_little_of_what_the_symmetric_hash_join_keeps(
    punctuated: punctuated_joins.Punctuated,
) -> None:
    whole, part = (punctuated_joins.run(name, punctuated, 20_000) for name in ("symmetric_hash_join", "p_join"))
    assert whole.kept == 40_000
    assert part.kept == 8_000  # the last batch of each stream
