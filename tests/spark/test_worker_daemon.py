"""The Python workers: what they have in memory when they begin."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def test_a_workers_garbage_collection_visits_only_what_its_tasks_have_made(spark: Any) -> None:
    def objects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"spared": [gc.get_freeze_count()], "visited": [len(gc.get_objects())]})

    [row] = spark.range(1, numPartitions=1).mapInArrow(objects, "spared long, visited long").collect()
    assert row.spared > 10 * row.visited > 0
