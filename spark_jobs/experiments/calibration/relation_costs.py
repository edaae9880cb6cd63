"""What reading a relation and joining with it costs, and what service rates the cost models make of that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.checks import check_tables
from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.calibration.disk_calibration import DiskMeasurement, measure_disk
from spark_jobs.experiments.calibration.processor_calibration import measure_processor
from spark_jobs.experiments.direct_file.direct_relation import open_direct_file
from spark_jobs.experiments.direct_file.writer import write_direct_file
from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.front_stage_model import front_stage_slots
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, CACHED, PAPER_FRONT_SHARE, predict
from spark_jobs.joins.semi_stream.theory.setting import ProcessorCosts, Setting
from spark_jobs.joins.structures.stream_tuples import StreamTuples
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.warehouse.connection import connect

_TYPICAL_PAGE_BYTES = 64 << 10
_FINEST_PAGE_ROWS = 100

_ROWS = 2_000_000
_TUPLE_BYTES = 120
_CHUNK_ROWS = 100_000


@dataclass(frozen=True)
class RelationCosts:
    """The constants of the cost models for one relation.

    Attributes:
        relation: its name.
        disk: where it lies, in words.
        row_count: its tuples.
        tuple_bytes: memory of a tuple.
        page_rows: tuples of a page such as joins with it read.
        memory_bytes: what a join with it may use, by which the sizes of its data structures were chosen.
        reading: what reading R costs.
        processor: what the join's own work costs.
    """

    relation: str
    disk: str
    row_count: int
    tuple_bytes: int
    page_rows: int
    memory_bytes: int
    reading: DiskMeasurement
    processor: ProcessorCosts


def calibrate_in_postgres(url: str, spec: RelationSpec, memory_bytes: int) -> RelationCosts:
    """Measure a relation live in PostgreSQL. Reads its index once: 0.3 s for 10 million tuples.

    Args:
        url: libpq URL of the warehouse.
        spec: the relation.
        memory_bytes: what a join with it may use.

    Raises:
        SchemaMismatchError: no index gives R's key in an order that pages can have.
    """
    relation = LiveRelation.open(url, spec, _FINEST_PAGE_ROWS)
    return _costs(spec.relation, "PostgreSQL", relation, spec.row_count, spec.tuple_bytes, memory_bytes)


def calibrate_local_disk(folder: Path) -> RelationCosts:
    """Measure a direct file of 2 million tuples of 120 bytes, which is written to a folder, and removed in the end.

    Args:
        folder: on the disk in question.

    Raises:
        DirectFileError: the disk has no room for 240 MB.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="calibration-") as temporary:
        path = Path(temporary) / "relation"
        write_direct_file(path, _made_up_tuples(), _TUPLE_BYTES, _ROWS)
        relation = open_direct_file(path, _FINEST_PAGE_ROWS)
        disk = "local disk, O_DIRECT" if relation.direct else "local disk, through a cache that is emptied"
        memory_bytes = _ROWS * _TUPLE_BYTES // 10  # the memory of most of the papers' figures
        costs = _costs("made-up tuples", disk, relation, _ROWS, _TUPLE_BYTES, memory_bytes)
        relation.close()
    return costs


def _costs(
    name: str,
    disk: str,
    relation: LiveRelation | NumberedRelation,
    row_count: int,
    tuple_bytes: int,
    memory_bytes: int,
) -> RelationCosts:
    page_rows = max(1, min(_TYPICAL_PAGE_BYTES // tuple_bytes, row_count))
    cached = front_stage_slots(PAPER_FRONT_SHARE * memory_bytes, tuple_bytes)
    processor = measure_processor(
        waiting_tuples=1000 * memory_bytes // StreamTuples.bytes_for(1000),
        page_rows=page_rows,
        page_count=max(1, -(-row_count // page_rows)),
        cached_tuples=max(1, int(min(cached, row_count))),
        tuple_bytes=tuple_bytes,
    )
    return RelationCosts(
        relation=name,
        disk=disk,
        row_count=row_count,
        tuple_bytes=tuple_bytes,
        page_rows=page_rows,
        memory_bytes=memory_bytes,
        reading=measure_disk(relation),
        processor=processor,
    )


def _made_up_tuples() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    payload = np.zeros((_CHUNK_ROWS, _TUPLE_BYTES - 8), np.uint8)
    for first in range(0, _ROWS, _CHUNK_ROWS):
        yield np.arange(first, first + _CHUNK_ROWS), payload


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


def calibrate_lookups(definitions: Sequence[PipelineDefinition], warehouse_url: str) -> list[RelationCosts]:
    """Measure the relation of every lookup, one after the other. A second or two each.

    Args:
        definitions: the pipelines.
        warehouse_url: where their relations are.

    Raises:
        SchemaMismatchError: a relation or the fact table does not fit its pipeline, or can't be read by pages.
    """
    measured = []
    for definition in definitions:
        with closing(connect(warehouse_url)) as connection:
            relations = check_tables(connection, definition).relations
        for lookup, spec in zip(definition.lookups, relations, strict=True):
            measured.append(calibrate_in_postgres(warehouse_url, spec, lookup.memory))
    return measured
