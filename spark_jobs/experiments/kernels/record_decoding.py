"""How many order records a second one core decodes, from the bytes of a landed file to arrivals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from spark_jobs.definition import Source, load_definition
from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.settings import pipelines_folder
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.workload.bad_input import DEFECT, DUPLICATE, choose_defects
from spark_jobs.workload.order_events import EVENT_TIME, OrderFiles

TARGET = 500_000
RECORDS = 200_000
_MALFORMED = ("malformed_json", "wrong_type", "numeric_overflow", "not_a_number", "invalid_utf8")
_FIRST_MOMENT = 1_700_000_000_000_000


def measure(repeats: int) -> list[MeasuredFigure]:
    """Records per second of each format, read from the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {name: write(Path(folder)) for name, write in FILES.items()}
        cases = {name: partial(seconds, partial(read, path, source)) for name, (path, source) in sources.items()}
        return [
            MeasuredFigure.of(
                f"decoding orders, {name}",
                [RECORDS / taken for taken in times],
                "records/s",
                TARGET if name == "JSON" else None,
                "least",
            )
            for name, times in interleaved(cases, repeats).items()
        ]


def orders(defects: Collection[str] = (), share: float = 0.0) -> pa.Table:
    """Orders like TPC-H's, of which this share has one of the defects."""
    random = np.random.default_rng(10)
    days = random.integers(8_035, 10_440, RECORDS).astype(np.int32)
    words = np.array(["sleep", "quickly", "ironic", "deposits", "accounts", "among", "the", "furiously"])
    spoilt = choose_defects(defects, RECORDS, share, random) if defects else pa.nulls(RECORDS, pa.string())
    return pa.table(
        {
            "o_orderkey": np.arange(RECORDS) * 4,
            "o_custkey": random.integers(1, 1_500_000, RECORDS),
            "o_orderstatus": np.array(["O", "F", "P"])[random.integers(0, 3, RECORDS)],
            "o_totalprice": pa.array(random.integers(100_000, 50_000_000, RECORDS))
            .cast(pa.decimal128(19, 0))
            .view(pa.decimal128(19, 2))
            .cast(pa.decimal128(15, 2)),
            "o_orderdate": pa.array(days, pa.date32()),
            "o_orderpriority": np.array(["1-URGENT", "4-NOT SPECIFIED", "5-LOW"])[random.integers(0, 3, RECORDS)],
            "o_clerk": [f"Clerk#{number:09}" for number in random.integers(1, 1000, RECORDS)],
            "o_shippriority": np.zeros(RECORDS, np.int32),
            "o_comment": [" ".join(some) for some in words[random.integers(0, len(words), (RECORDS, 6))].tolist()],
            # A duplicate would be written to the next file.
            DEFECT: pc.if_else(pc.equal(spoilt, DUPLICATE), None, spoilt),
        }
    )


def _json(folder: Path, name: str, rows: pa.Table) -> tuple[Path, Source]:
    content = OrderFiles().next_file(rows, moments())
    assert content is not None
    (folder / name).write_bytes(content)
    return folder / name, orders_source()


def _plain_json(folder: Path) -> tuple[Path, Source]:
    return _json(folder, "orders.json", orders())


def _one_in_a_hundred_malformed(folder: Path) -> tuple[Path, Source]:
    return _json(folder, "some_malformed.json", orders(_MALFORMED, 0.01))


def _csv(folder: Path) -> tuple[Path, Source]:
    path = folder / "orders.csv"
    pa.csv.write_csv(events(), path)
    return path, orders_source(format="csv", options={"header": "true"})


def _parquet(folder: Path) -> tuple[Path, Source]:
    path = folder / "orders.parquet"
    pa.parquet.write_table(events(), path)
    return path, orders_source(format="parquet")


FILES: dict[str, Callable[[Path], tuple[Path, Source]]] = {
    "JSON": _plain_json,
    "JSON, 1% malformed": _one_in_a_hundred_malformed,
    "CSV": _csv,
    "Parquet": _parquet,
}


def events() -> pa.Table:
    """Orders with their times."""
    times = pa.array(moments()).cast(pa.timestamp("us", "UTC"))
    return orders().drop_columns([DEFECT]).append_column(EVENT_TIME, times)


def moments() -> NDArray[np.int64]:
    """When they happened, in microseconds since 1970 UTC."""
    return _FIRST_MOMENT + np.arange(RECORDS) * 1_001


def orders_source(**changes: Any) -> Source:
    """How the shipped pipeline reads them, but for these keys."""
    source = load_definition(pipelines_folder() / "orders.yaml").streams[""]
    return Source.model_validate(source.model_dump(by_alias=True) | changes)


def read(path: Path, source: Source) -> int:
    """Read a file of `RECORDS` records to arrivals."""
    found = path.stat()
    piece = FileSlice(0, str(path), 0, found.st_size, found.st_size, found.st_mtime_ns)
    records = sum(arrivals.records for arrivals in read_slice(piece, RecordDecoder.of(source)))
    assert records == RECORDS
    return records
