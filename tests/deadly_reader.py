"""A record that ends the process that decodes it, as a fault of a library would: for tests alone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.records import json_format
from spark_jobs.source.records.csv_records import CsvDecoder
from spark_jobs.source.records.parquet_rows import ParquetRows
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.source.slices import SourceSlice

_DEADLY = {b"SEGV!": signal.SIGSEGV, b"ABRT!": signal.SIGABRT, b"KILL!": signal.SIGKILL}
# Named behind a marker: it ends processes while there is this file.
_KILLER = re.compile(rb"KILL!while ([\w/.-]+)")
HUNGRY, STARVING = b"HUNGRY!", b"STARVING!"


@dataclass(frozen=True)
class DeadlyReader(SliceReader):
    """Reads like any other, but records that hold `SEGV!`, `ABRT!` or `KILL!` end the process by that signal.

    What holds `HUNGRY!` takes 3 GiB, and `STARVING!` more than any machine has. It travels in tasks: that is so in all
    processes.
    """

    def __call__(self, piece: SourceSlice) -> Iterator[Arrivals]:
        """As of `SliceReader`."""
        with deadly_decoding(_obey):
            yield from super().__call__(piece)


def never_decoded(records: pa.Array) -> None:
    """Fails where a deadly record is decoded."""
    assert not any(pc.any(pc.match_substring(records, marker)).as_py() for marker in (*_DEADLY, HUNGRY, STARVING))


@contextmanager
def deadly_decoding(meet: Callable[[pa.Array], None]) -> Iterator[None]:
    """Have all records shown to `meet` before they are decoded, in this process."""
    decode_json, csv, single, rows = (
        json_format.decode_json,
        CsvDecoder.decode,
        RecordDecoder.decode,
        ParquetRows.decode,
    )

    def of_function(records: pa.Array, *others: Any) -> Any:
        meet(records)
        return decode_json(records, *others)

    def of_method(method: Callable[..., Any]) -> Callable[..., Any]:
        def decode(self: Any, records: Any) -> Any:
            meet(records["name"].cast(pa.binary()) if isinstance(records, pa.RecordBatch) else records)
            return method(self, records)

        return decode

    with (
        patch.object(json_format, "decode_json", of_function),
        patch.object(CsvDecoder, "decode", of_method(csv)),
        patch.object(RecordDecoder, "decode", of_method(single)),
        patch.object(ParquetRows, "decode", of_method(rows)),
    ):
        yield


def _obey(records: pa.Array) -> None:
    for marker, number in _DEADLY.items():
        for record in records.filter(pc.match_substring(records, marker)).to_pylist():
            killer = _KILLER.search(record)
            if killer is None or os.path.exists(killer[1]):
                os.kill(os.getpid(), number)
    for marker, size in ((HUNGRY, 3 << 30), (STARVING, 1 << 45)):
        if pc.any(pc.match_substring(records, marker)).as_py():
            bytearray(size)
