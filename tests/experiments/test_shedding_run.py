"""The series of 003 Fig. 7 and Fig. 8, at a scale of seconds."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from spark_jobs.experiments.semi_stream.overloaded_run import SHED_TO_DISK, SHED_TO_NETWORK, ChargedDestination
from spark_jobs.experiments.semi_stream.shedding_run import (
    LONGEST_WAIT,
    SheddingSetting,
    arrival_rate_series,
    lookup_position_series,
)
from spark_jobs.experiments.semi_stream.workloads import zipf
from spark_jobs.experiments.virtual_relation import DiskProfile, VirtualClock
from spark_jobs.joins.semi_stream.load_shedding import MemoryDestination
from spark_jobs.joins.structures.stream_buffer import TupleColumns

R_TUPLES, PAGE_ROWS = 50_000, 50
SETTING = SheddingSetting(
    zipf(R_TUPLES, 1.0, sorted_by_rank=False),
    memory_bytes=R_TUPLES * 120 // 25,
    page_rows=PAGE_ROWS,
    warm_up=30_000,
    measured=30_000,
)


def test_the_service_rate_by_arrival_rate_has_the_published_order() -> None:
    rates: dict[str, list[float]] = defaultdict(list)
    for point in arrival_rate_series(SETTING, overloads=(2.0, 5.0)):
        rates[point.series].append(point.service_rate)
        assert point.measurement.shed > 0
    assert rates["tuned, to network"][1] > 0.97 * rates["tuned, to disk"][1]
    for tuned, upfront, mesh, ours in zip(
        rates["tuned, to disk"], rates["upfront"], rates["MESHJOIN"], rates[LONGEST_WAIT], strict=True
    ):
        assert ours > tuned > upfront > mesh
    assert 2.5 < rates["tuned, to disk"][1] / rates["upfront"][1] < 3.7  # published: 3.1


def test_every_lookup_position_is_measured_and_ours_beside_it() -> None:
    points = lookup_position_series(SETTING, overload=2.0, shares=(0.0, 0.15, 0.8))
    assert [(point.series, point.x) for point in points] == [
        ("lookup position", 0),
        ("lookup position", 15),
        ("lookup position", 80),
        (LONGEST_WAIT, 0),
        (LONGEST_WAIT, 80),
    ]
    assert max(point.service_rate for point in points[:3]) < 1.03 * points[-1].service_rate


@pytest.mark.parametrize("profile", [SHED_TO_DISK, SHED_TO_NETWORK])
def test_a_destination_charges_for_every_full_buffer_both_ways(profile: DiskProfile) -> None:
    clock = VirtualClock()
    destination = ChargedDestination(MemoryDestination(), profile, clock)
    ids = np.arange(5000)
    destination.put(TupleColumns(ids, ids, ids))
    assert clock() == pytest.approx(profile.seconds(profile.block_bytes))
    assert destination.take(5000).ids.tolist() == ids.tolist()
    assert clock() == pytest.approx(3 * profile.seconds(profile.block_bytes))
    assert len(destination) == 0
