"""A worker's process without Spark: warms up, then loads two batches, and prints what they had to compile.

Arguments: the warehouse's URL, the pipeline's YAML file. Names of kernels, as a JSON list.
"""

import json
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg2
from numba.core.registry import CPUDispatcher

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.driver.checks import check_tables
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan, MappedBroadcast, unique_name
from spark_jobs.lookup.planning.planning import plan_lookups
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.front_task import front_task
from spark_jobs.stages.warm_up import WarmUp, warm_up
from tests.spark.shop import land, sale


def compiled() -> set[str]:
    """Every kernel with every kind of arguments that it has been compiled for, or loaded for, in this process."""
    return {
        f"{name}.{attribute} {signature}"
        for name, module in sorted(sys.modules.items())
        if name.startswith("spark_jobs")
        for attribute, value in vars(module).items()
        if isinstance(value, CPUDispatcher)
        for signature in value.signatures
    }


class NoSpark:
    """As much of a Spark context as publishing takes."""

    def broadcast(self, value: bytes) -> Any:
        return SimpleNamespace(value=value)


def sales(landing: Path, first: int) -> FileSlice:
    """A landed file: hits and misses, unknown customers, no customer, bad records."""
    events = [sale(number) for number in range(first, first + 3000)]
    land(
        landing.parent,
        "sales",
        [*events, sale(first + 3000, customer=9999), sale(first + 3001, customer=None), b"{%d" % first],
    )
    path = landing / "sales.json"
    return FileSlice(0, str(path), 0, path.stat().st_size, path.stat().st_size, path.stat().st_mtime_ns)


url, path = sys.argv[1:]
definition = load_definition(path)
with closing(psycopg2.connect(url)) as connection:
    tables = check_tables(connection, definition)
    plans = plan_lookups(definition, tables.relations, url, NoSpark(), 2)  # type: ignore[arg-type]
    rows = LiveRelation(url, plans[0].spec, plans[0].pages.value().index).read_pages(0).rows
    hot_set, order = HotSet.arranged(0, rows.keys.codes)
    hot = MappedBroadcast.publish(NoSpark(), unique_name("hot"), 0, HotTuples.of(hot_set, rows.take(order)))  # type: ignore[arg-type]
    front = FrontStagePlan(hot if plans[0].front else None, 1000, True)
    columns = {name: kind.arrow() for name, kind in definition.source.columns.items()}
    warmed_up = BatchContext(url, WarmUp(tables.event, tables.fact), 2, plans, (front,), None)
    before_all = compiled()
    fault = warm_up(warmed_up, columns)
    assert fault is None, fault
    before = compiled()
    assert before > before_all

    register_pipeline(connection, "sales", definition.freshness.target, "{}")
    epoch = drivers.take_over(connection, "sales", log_file=None)
    for first in (0, 10_000):  # of the second batch, some may be held by the first
        piece = sales(Path(definition.source.path), first)
        planned = SourceRange(
            f"sales-{first}.json", piece.first, piece.last, piece.size, piece.modified_ns, kind="files"
        )
        batch_no = batch_ledger.open_batch(connection, "sales", epoch, [planned])
        destination = StreamBatch(tables.event, tables.fact, epoch, batch_no, units=(planned.unit,))
        context = replace(warmed_up, destination=destination)
        read = partial(read_slice, decoder=RecordDecoder.of(definition.source))
        waiting = list(front_task(context, [piece], read, lambda report: None))
        assert waiting, "some tuples miss the front stage"
        list(back_task(context, 0, [parcel.tuples for parcel in waiting], lambda report: None))
        batch_ledger.close_batch(connection, batch_no, [RangeEnd(3003)], {}, tables.fact)
print(json.dumps(sorted(compiled() - before)))
