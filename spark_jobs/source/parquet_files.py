"""Reads landed Parquet files inside the tasks, straight into arrow.

Spark's own reader turns columns into rows, and for Python those into columns again: about two microseconds of
processor time a tuple, ten times what the front stage takes. Here Spark finds, plans and commits the files, and
a task reads those that it is given. A tuple that the front stage joins never enters the Java machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals, ArrivalsReader
from spark_jobs.warehouse.event_columns import ARRIVED_AT, RAW

BATCH_ROWS = 65_536


def parquet_reader(groups: Sequence[Sequence[Path]], schema: pa.Schema) -> ArrivalsReader:
    """A reader for tasks that get the numbers of their groups of files.

    A file that can't be read, or lacks the schema's types, is rejected whole: one held tuple that names it.

    Args:
        groups: files by task.
        schema: the source's columns.
    """

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[Arrivals]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for path in groups[number]:
                    yield from _read_file(path, schema)

    return read


def balanced_groups(files: Sequence[Path], parts: int) -> list[list[Path]]:
    """Deal files out to at most `parts` groups of about the same number of bytes, largest first."""
    groups: list[list[Path]] = [[] for _ in range(min(parts, len(files)))]
    sizes = [0] * len(groups)
    for size, path in sorted(((path.stat().st_size, path) for path in files), reverse=True):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(path)
        sizes[smallest] += size
    return groups


def _read_file(path: Path, schema: pa.Schema) -> Iterator[Arrivals]:
    arrived_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        # Whole files are checked before their first tuple is handed on: they are loaded whole or not at all.
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            stored = _stored_names(file.schema_arrow.names, schema)
            tables = [
                _fitted(pa.Table.from_batches([batch]), schema, stored, arrived_at)
                for batch in file.iter_batches(BATCH_ROWS, columns=list(stored.values()))
            ]
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, MemoryError | pa.ArrowCancelled) or getattr(error, "errno", None):
            raise  # the machine's fault, not the file's: the task is tried again
        rejected = _rejected_file(path, schema, arrived_at, error)
        yield Arrivals(rejected.tuples.slice(0, 0), [rejected])
        return
    for table in tables:
        yield Arrivals(table, [])


def _stored_names(stored: Sequence[str], schema: pa.Schema) -> dict[str, str]:
    """For each column of the schema that the file has, the file's name of it: as in Spark, case does not matter."""
    folded = {name.lower(): name for name in stored}
    found = {name: name if name in stored else folded.get(name.lower()) for name in schema.names}
    return {name: stored_name for name, stored_name in found.items() if stored_name is not None}


def _fitted(table: pa.Table, schema: pa.Schema, stored: Mapping[str, str], arrived_at: datetime) -> pa.Table:
    """The table with the schema's columns and types; a column that the file lacks is null, as Spark has it."""
    columns = []
    for field in schema:
        if field.name not in stored:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        values = table[stored[field.name]]
        try:
            columns.append(values.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"column {field.name} is of type {values.type}, not {field.type}: {error}") from error
    arrived = pa.repeat(pa.scalar(arrived_at, pa.timestamp("us", "UTC")), table.num_rows)
    fitted = pa.table(columns, schema=schema)
    return fitted.append_column(ARRIVED_AT, arrived).append_column(RAW, pa.nulls(table.num_rows, pa.binary()))


def _rejected_file(path: Path, schema: pa.Schema, arrived_at: datetime, error: Exception) -> Held:
    tuples = _fitted(pa.table({"": pa.nulls(1)}), schema, {}, arrived_at)
    tuples = tuples.set_column(tuples.column_names.index(RAW), RAW, pa.array([str(path).encode()], pa.binary()))
    return Held("rejected", f"malformed: the file can't be read as the source's schema: {error}", None, tuples)
