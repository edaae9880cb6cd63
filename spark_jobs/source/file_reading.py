"""Reads a slice of a landed file: bytes to stream tuples, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.checked_whole import checked_whole
from spark_jobs.source.file_content import planned_file, shown_path
from spark_jobs.source.line_files import LineFile
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.parquet_rows import ParquetRows
from spark_jobs.source.slices import FileSlice


def read_slice(piece: FileSlice, source: Source) -> Iterator[Arrivals]:
    """Read a slice. O(bytes); in memory are some blocks of it, however large the file.

    Args:
        piece: a slice of a file of the source's format.
        source: how records look.

    Raises:
        UnreadableFileError: the file is damaged or not of the format, or lacks what the schema needs; always before
            the first tuple.
        SourceRangeGoneError: the file is missing, or not the one that was planned; also after the last tuple.
        OSError: the machine can't read it.
    """
    with planned_file(piece) as file:
        reading = _parquet(piece, source, file) if source.format == "parquet" else _lines(piece, source, file)
        yield from reading


def _lines(piece: FileSlice, source: Source, file: BinaryIO) -> Iterator[Arrivals]:
    lines = LineFile(piece, source, file)
    for block in lines.blocks():
        records, positions = lines.records_of(block)
        if len(records):
            yield _arrivals(piece, lines.decode(records), lines.with_header(records), positions)


def _parquet(piece: FileSlice, source: Source, file: BinaryIO) -> Iterator[Arrivals]:
    rows = ParquetRows(file, source.columns, shown_path(piece))
    position = 0
    for batch in checked_whole(rows.batches, lambda batch: batch.nbytes):
        positions = np.arange(position, position + batch.num_rows)
        position += batch.num_rows
        decoded = rows.decode(batch)
        yield _arrivals(piece, decoded, rows.records_of_malformed(batch, decoded), positions)


def _arrivals(piece: FileSlice, decoded: Decoded, records: pa.Array, positions: NDArray[np.int64]) -> Arrivals:
    count = len(positions)
    arrived = pa.scalar(piece.modified_ns // 1000, pa.timestamp("us", "UTC"))
    tuples = (
        decoded.tuples.append_column(ARRIVED_AT, pa.repeat(arrived, count))
        .append_column(RECORD, records)
        .append_column(RANGE, pa.repeat(pa.scalar(piece.range_no, pa.int32()), count))
        .append_column(POSITION, pa.array(positions))
    )
    if decoded.reasons.null_count == count:
        return Arrivals(tuples, [], count)
    sound = pc.is_null(decoded.reasons)
    malformed = Held("rejected", decoded.reasons.drop_null(), None, tuples.filter(pc.invert(sound)), identified=False)
    return Arrivals(tuples.filter(sound), [malformed], count)
