"""Order events (JSON) and order line events (Parquet or JSON), file by file, with bad input where it is asked for."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from spark_jobs.workload.bad_input import DEFECT, DUPLICATE, LINE_DEFECTS, ORDER_DEFECTS, Row, encode_json
from spark_jobs.workload.zipf import IntArray

EVENT_TIME = "ordered_at"


@dataclass
class Written:
    """What was written for one pipeline.

    Attributes:
        events: all events, bad ones and duplicates included.
        bad: number of bad events by defect; a duplicate counts once, for its second appearance.
    """

    events: int = 0
    bad: Counter[str] = field(default_factory=Counter)


class EventFiles(ABC):
    """Makes the files of one pipeline, one after the other.

    A duplicate is sent again in the file after its first appearance, so that duplicates cross files and, now
    and then, the batches of the loading job.
    """

    pipeline: str
    suffix: str

    def __init__(self) -> None:
        self.written = Written()
        self._repeated: pa.Table | None = None

    def next_file(self, rows: pa.Table, moments: IntArray, *, last: bool = False) -> bytes | None:
        """The next file's content, or None where it would be empty.

        Args:
            rows: the events but for their time, and DEFECT.
            moments: event times in microseconds since 1970 UTC, one a row.
            last: no file follows, so this one has its own duplicates too.
        """
        event_time = pa.array(moments).cast(pa.timestamp("us", tz="UTC"))
        events = rows.drop_columns([DEFECT]).append_column(EVENT_TIME, event_time)
        defects = rows[DEFECT]
        is_repeated = pc.fill_null(pc.equal(defects, DUPLICATE), False)
        intact = [events.filter(pc.or_(pc.is_null(defects), is_repeated))]
        is_spoiled = pc.fill_null(pc.not_equal(defects, DUPLICATE), False)
        spoiled = list(zip(defects.filter(is_spoiled).to_pylist(), self._rows(events.filter(is_spoiled)), strict=True))

        repeated = [self._repeated] if self._repeated is not None else []
        self._repeated = events.filter(is_repeated)
        if last:
            repeated.append(self._repeated)
        intact += repeated

        count = sum(table.num_rows for table in intact) + len(spoiled)
        self.written.events += count
        self.written.bad.update(name for name, _ in spoiled)
        self.written.bad[DUPLICATE] += sum(table.num_rows for table in repeated)
        return self._encode(pa.concat_tables(intact), spoiled) if count else None

    @abstractmethod
    def _rows(self, events: pa.Table) -> list[Row]:
        """The events in the form in which they are spoiled."""

    @abstractmethod
    def _encode(self, intact: pa.Table, spoiled: list[tuple[str, Row]]) -> bytes:
        """A file of intact events, and of events to be spoiled by the defect that is named with each."""


class OrderFiles(EventFiles):
    """Orders: JSON, one object a line."""

    pipeline = "orders"
    suffix = "json"

    def _rows(self, events: pa.Table) -> list[Row]:
        return _json_rows(events)

    def _encode(self, intact: pa.Table, spoiled: list[tuple[str, Row]]) -> bytes:
        return _json_lines(intact, [ORDER_DEFECTS[defect](row) for defect, row in spoiled])


class OrderLineFiles(EventFiles):
    """Order lines: Parquet."""

    pipeline = "order_lines"
    suffix = "parquet"

    def _rows(self, events: pa.Table) -> list[Row]:
        return events.to_pylist()

    def _encode(self, intact: pa.Table, spoiled: list[tuple[str, Row]]) -> bytes:
        rows = [LINE_DEFECTS[defect](row) for defect, row in spoiled]
        columns = [
            _column([row[name] for row in rows], type_)
            for name, type_ in zip(intact.schema.names, intact.schema.types, strict=True)
        ]
        file = io.BytesIO()
        pyarrow.parquet.write_table(pa.concat_tables([intact, pa.table(columns, schema=intact.schema)]), file)
        return file.getvalue()


class OrderLineRecords(EventFiles):
    """Order lines: JSON, one object a line."""

    pipeline = "order_lines"
    suffix = "json"

    def _rows(self, events: pa.Table) -> list[Row]:
        return _json_rows(events)

    def _encode(self, intact: pa.Table, spoiled: list[tuple[str, Row]]) -> bytes:
        return _json_lines(intact, [encode_json(LINE_DEFECTS[defect](row)) for defect, row in spoiled])


def _json_rows(events: pa.Table) -> list[Row]:
    """The events as JSON has them."""
    columns = []
    for column in events.columns:
        if pa.types.is_decimal(column.type):
            # By way of text, each becomes the float nearest to it, which JSON shows as TPC-H has it.
            columns.append(column.cast(pa.string()).cast(pa.float64()))
        elif pa.types.is_temporal(column.type):
            columns.append(pc.replace_substring(column.cast(pa.string()), " ", "T"))
        else:
            columns.append(column)
    return pa.table(columns, names=events.column_names).to_pylist()


def _json_lines(intact: pa.Table, spoiled: list[bytes]) -> bytes:
    lines = [encode_json(row) for row in _json_rows(intact)]
    return b"".join(line + b"\n" for line in lines + spoiled)


def _column(values: list[object], type_: pa.DataType) -> pa.Array:
    """An array of the values; text may be bytes that are no valid UTF-8."""
    if type_ != pa.string():
        return pa.array(values, type_)
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary()).cast(
        type_, safe=False
    )
