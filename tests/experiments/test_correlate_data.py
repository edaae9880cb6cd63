"""The events that `freshet bench correlate` joins, the table of their facts, and who can join them."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.experiments.correlate.contender_run import CONTENDERS
from spark_jobs.experiments.correlate.correlate_benchmark import can_join
from spark_jobs.experiments.correlate.data import REGIMES, CorrelateCase, columns_of, empty_fact, stored_facts
from spark_jobs.experiments.correlate.freshet_correlation import bench_definition
from spark_jobs.warehouse.fact_table_check import describe_fact_table

STRETCHES = [np.arange(1_000 * n, 1_000 * (n + 1)) for n in range(3)]


def case_of(regime: str) -> CorrelateCase:
    return CorrelateCase(regime, events=3_000, warm_up=0, windows=3.0)


def events_of(case: CorrelateCase) -> dict[str, list[pa.Table]]:
    """What comes of each stream, stretch by stretch; ten events a second."""
    generator = case.generator()
    taken = [dict(generator.take(n[0], n / 10, last=n is STRETCHES[-1])) for n in STRETCHES]
    return {stream: [events[stream] for events in taken] for stream in case.streams}


@pytest.mark.parametrize("regime", REGIMES)
def test_each_event_comes_once_and_not_before_it_happens(regime: str) -> None:
    for stream, stretches in events_of(case_of(regime)).items():
        ids = pa.concat_tables(stretches)[0].to_pylist()
        assert len(ids) == len(set(ids)) > 0, stream
        for events, numbers in zip(stretches[:-1], STRETCHES, strict=False):
            newest = max(events[list(columns_of(stream))[-1]].to_pylist(), default=None)
            assert newest is None or newest.timestamp() <= numbers[-1] / 10


def test_each_order_is_paid_and_shipped_once_some_of_them_later() -> None:
    came = events_of(case_of("accumulate")).values()
    orders, payments, shipments = ([events["order_id"].to_pylist() for events in stretches] for stretches in came)
    for parts in (payments, shipments):
        assert sorted(chain(*parts)) == sorted(chain(*orders))
        assert len(parts[0]) < len(orders[0])


@pytest.mark.parametrize("regime", REGIMES)
def test_the_table_takes_the_facts_of_the_pipeline(regime: str, warehouse_url: str, tmp_path: Path) -> None:
    case = CorrelateCase(regime, events=1_000_000, warm_up=0, windows=3.0)
    empty_fact(warehouse_url, case)
    definition = bench_definition(case, tmp_path)
    types = {name: kind.arrow() for name, kind in definition.tuples.columns.items()}
    with closing(psycopg2.connect(warehouse_url)) as connection:
        assert describe_fact_table(connection, definition, types).event_id == case.key
    assert stored_facts(warehouse_url) == (0, "0")
    assert "freshet" in {name for name in CONTENDERS if can_join(name, case)} > {"freshet"}
