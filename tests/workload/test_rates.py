"""The workload's rate can change: as planned, or steered while orders land."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.errors import WorkloadError
from spark_jobs.settings import Home
from spark_jobs.workload.bursts import ArrivalSchedule, bursty_arrivals, steady_arrivals
from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
from spark_jobs.workload.rates import Phase, SteeredRate, constant, phased, steer

BURST = [Phase(timedelta(seconds=20), 3000.0), Phase(timedelta(seconds=30), 200.0)]


def per_second(arrivals: Iterator[tuple[float, int]], seconds: int) -> np.ndarray:
    return np.array([count for _, count in itertools.islice(arrivals, seconds * 10)]).reshape(-1, 10).sum(axis=1)


def test_a_burst_comes_and_goes_as_planned() -> None:
    seconds = per_second(steady_arrivals(phased(200.0, BURST)), 60)
    assert (seconds[:20] == 200).all()
    assert (seconds[20:30] == 3000).all()
    assert (seconds[30:] == 200).all()


def test_phases_may_be_told_in_any_order_and_pause_the_stream() -> None:
    pause = [Phase(timedelta(seconds=3), 7.0), Phase(timedelta(seconds=1), 0.0)]
    assert per_second(steady_arrivals(phased(5.0, pause)), 5).tolist() == [5, 0, 0, 7, 7]


def test_bursts_on_all_scales_keep_the_mean_of_each_phase() -> None:
    seconds = per_second(bursty_arrivals(phased(100.0, [Phase(timedelta(hours=1), 900.0)]), seed=3), 7200)
    assert seconds[:3600].mean() == pytest.approx(100, rel=0.1)
    assert seconds[3600:].mean() == pytest.approx(900, rel=0.1)


def test_a_rate_of_fractions_adds_up() -> None:
    assert per_second(steady_arrivals(constant(0.3)), 1000).sum() == pytest.approx(300, abs=1)


def test_a_file_steers_what_is_not_planned_yet(tmp_path: Path) -> None:
    file = tmp_path / "rate"
    schedule = ArrivalSchedule(steady_arrivals(SteeredRate(file, constant(10.0))))
    assert len(schedule.due(9.99)) == 100
    steer(file, 500.0)
    assert len(schedule.due(19.99)) == pytest.approx(5000, abs=50)
    steer(file, 0)
    assert len(schedule.due(29.99)) <= 50
    file.unlink()
    assert len(schedule.due(39.99)) == pytest.approx(100, abs=5)


@pytest.mark.parametrize("text", ["", "fast", "-1", "nan", "1e9"])
def test_a_file_without_a_possible_rate_changes_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rate"
    file.write_text(text)
    assert SteeredRate(file, constant(10.0))(0.0) == 10.0


def test_a_running_workload_is_steered(seeded_home: Home) -> None:
    class Steering(threading.Event):
        """Raises the rate after some ticks; ends after some more."""

        ticks = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.ticks += 1
            if self.ticks == 10:
                self.written_before = sum(1 for _ in self.orders())
                steer(seeded_home.workload_rate, 20_000.0)
            return super().wait(timeout) or self.ticks >= 20

        def orders(self) -> Iterator[bytes]:
            for file in seeded_home.landing("orders").glob("*.json"):
                yield from file.read_bytes().splitlines()

    steer(seeded_home.workload_rate, 1.0)  # of an earlier run: no longer counts
    stop = Steering()
    options = OrderStreamOptions(rate=1000.0, bursty=False, tick=timedelta(milliseconds=100))
    write_order_stream(seeded_home, options, stop)
    assert stop.written_before > 300
    assert sum(1 for _ in stop.orders()) - stop.written_before > 5 * stop.written_before


def test_impossible_phases_are_refused() -> None:
    with pytest.raises(WorkloadError, match="phase -1: give at most 1,000,000 per second, or 0 for a pause"):
        OrderStreamOptions(phases=[Phase(timedelta(seconds=1), -1.0)])
