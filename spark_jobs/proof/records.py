"""The records of landed files, decoded as the stream does: what the proof does not trust comes after the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import POSITION, RECORD
from spark_jobs.proof.landing import LandedFile
from spark_jobs.relation.arrow_buffers import single_array
from spark_jobs.source.file_reading import read_slice
from spark_jobs.source.planned_file import FileSlice


class LandedRecords(NamedTuple):
    """Some records of one file.

    Attributes:
        values: the columns of the source's schema, shape (n,); null where the record could not be decoded.
        sound: bool, shape (n,): whether it could.
        records: large_binary, shape (n,): the record's bytes, null in Parquet files, which have none.
        positions: int64, shape (n,): where each lies in the file.
    """

    values: pa.Table
    sound: NDArray[np.bool_]
    records: pa.Array
    positions: NDArray[np.int64]

    def where(self, kept: NDArray[np.bool_]) -> LandedRecords:
        """Those that are kept; bool, shape (n,)."""
        if kept.all():
            return self
        values, records = self.values.filter(pa.array(kept)), self.records.filter(pa.array(kept))
        return LandedRecords(values, self.sound[kept], records, self.positions[kept])


def read_records(file: LandedFile, source: Source) -> Iterator[LandedRecords]:
    """The records of a landed file, block by block.

    Raises:
        UnreadableFileError: it is damaged, or its columns don't fit the schema; before the first record.
        SourceRangeGoneError: it is gone, or another file than before.
    """
    whole = FileSlice(0, str(file.path), 0, file.size, file.size, file.modified_ns)
    columns = list(source.columns)
    for arrivals in read_slice(whole, source):
        for tuples, sound in ((arrivals.tuples, True), *((group.tuples, False) for group in arrivals.rejected)):
            if tuples.num_rows:
                yield LandedRecords(
                    tuples.select(columns),
                    np.full(tuples.num_rows, sound),
                    single_array(tuples[RECORD]).cast(pa.large_binary()),
                    tuples[POSITION].to_numpy(),
                )
