"""The pipelines that join several streams: that the warehouse has what they load into, and which are started."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow.parquet as pq
import pytest

from spark_jobs.definition import PipelineDefinition, load_definition, load_definitions
from spark_jobs.definition.pipeline_files import definition_files
from spark_jobs.driver.checks import check_tables
from spark_jobs.experiments.correlate.data import REGIMES, CorrelateCase, empty_fact, write_events
from spark_jobs.experiments.correlate.freshet_correlation import bench_definition
from spark_jobs.settings import PROJECT_ROOT

SHIPPED = PROJECT_ROOT / "dags/pipelines"
OPTIONAL = SHIPPED / "optional"


def key(url: str, definition: PipelineDefinition) -> tuple[str, ...]:
    """The fact table's columns that keep an event from being loaded twice; an error if the table does not fit."""
    with closing(psycopg2.connect(url)) as connection:
        return check_tables(connection, definition).fact.event_id


@pytest.fixture(scope="module")
def definitions() -> dict[str, PipelineDefinition]:
    return {path.stem: load_definition(path) for path in (*definition_files(SHIPPED), *definition_files(OPTIONAL))}


def test_all_have_fact_tables_of_their_own_and_one_is_started_by_no_one(
    definitions: dict[str, PipelineDefinition],
) -> None:
    assert definitions.keys() - load_definitions(SHIPPED).keys() == {"auction_bids"}
    tables = [definition.fact.table for definition in definitions.values()]
    assert len(set(tables)) == len(tables) == 4


def test_the_warehouse_takes_what_they_load(
    warehouse_url: str, definitions: dict[str, PipelineDefinition], tmp_path: Path
) -> None:
    assert {name: key(warehouse_url, each) for name, each in definitions.items() if each.source is None} == {
        "auction_bids": ("auction_id", "bid_id"),
        "fulfilment": ("order_key",),
    }
    ids = {
        "fits": ("auction_id", "bid_id"),
        "tenth": ("auction_id", "bid_id"),
        "three": ("auction_id", "bid_id", "closing_id"),
        "accumulate": ("order_id",),
    }
    for regime in REGIMES:
        case = CorrelateCase(regime, events=150_000, warm_up=30_000, windows=3.0)
        empty_fact(warehouse_url, case)
        assert key(warehouse_url, bench_definition(case, tmp_path)) == ids[regime]


def test_the_streams_of_the_benchmark_are_the_same_for_all_contenders(tmp_path: Path) -> None:
    case = CorrelateCase("three", events=150_000, warm_up=30_000, windows=3.0)
    assert write_events(case, tmp_path) == {"auctions": 10_800, "bids": 165_600, "closings": 10_800}
    files = {stream: sorted((tmp_path / stream).iterdir()) for stream in case.streams}
    assert len({tuple(path.stem.split("-")[1] for path in each) for each in files.values()}) == 1
    times = [[path.stat().st_mtime for path in each] for each in files.values()]
    assert times[0] == times[1] == times[2] == sorted(set(times[0]))
    auctions, closings = (pq.read_table(tmp_path / stream) for stream in ("auctions", "closings"))
    closed_at = dict(zip(closings["auction_id"].to_pylist(), closings["closed_at"].to_pylist(), strict=True))
    assert closed_at == dict(zip(auctions["auction_id"].to_pylist(), auctions["expires_at"].to_pylist(), strict=True))
    assert list(closed_at.values()) == sorted(closed_at.values())
