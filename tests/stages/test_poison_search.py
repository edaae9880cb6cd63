"""What ends the process that reads it is found, to the record, by processes that may die; nothing else is blamed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.driver import poisoned_batch
from spark_jobs.driver.intake import Trial
from spark_jobs.driver.poisoned_batch import search
from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.stages.poison_search import Death, find_poison
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.warehouse.fact_table import FactColumn, FactTable
from tests.deadly_reader import DeadlyReader
from tests.source.landed import planned, source

LEAST_MEMORY = 1000  # so many tasks share the machine that each has the least there is
FACT = FactTable(
    *("shop", "sales"),
    (
        FactColumn("id", "id", pa.int64(), PostgresType("int8", "bigint"), nullable=False),
        FactColumn("name", "name", pa.string(), PostgresType("text", "text"), nullable=True),
    ),
    ("id",),
)


def lines(*marked: tuple[int, str], csv: bool = False) -> list[bytes]:
    """Some hundred records, with these names at these places."""
    names = dict(marked)
    if csv:
        return [b"id,name,at", *(f"{n},{names.get(n, 'x')},".encode() for n in range(300))]
    return [json.dumps({"id": n, "name": names.get(n, "x" * (n % 50))}).encode() for n in range(300)]


def trial(of: Source, piece: FileSlice | OffsetSlice) -> Trial:
    event = EventColumns.of("sales", of)
    return TrialReading.of_one(DeadlyReader.of(of, "sales"), event, FACT), piece


def start_of(records: list[bytes], number: int) -> int:
    return sum(len(record) + 1 for record in records[:number])


def at(records: list[bytes], number: int, how: str) -> PoisonSpan:
    first = start_of(records, number)
    return PoisonSpan(first, first + 1, how)


def written(folder: Path, name: str, records: list[bytes]) -> Path:
    content = b"\n".join(records) + b"\n"
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return folder / name


def test_each_record_is_found_in_every_kind_of_file_and_no_sound_one_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poisoned_batch, "_SEARCH_SECONDS", 400.0)
    two = lines((17, "SEGV!"), (298, "ABRT!"))
    in_csv = lines((100, "SEGV!"), csv=True)
    packed = lines((123, "SEGV!"))
    hungry = lines((200, "HUNGRY!"))
    known = lines((3, "SEGV!"), (4, "SEGV!"))
    nothing = pa.nulls(2)
    table = pa.table({"id": [1, 2], "name": ["x", "HUNGRY!"], "price": nothing, "at": nothing})
    types = [(name, kind.arrow()) for name, kind in source("parquet").columns.items()]
    pq.write_table(table.cast(pa.schema(types)), tmp_path / "one.parquet")
    half_known = planned(written(tmp_path, "known.json", known), 0, start_of(known, 150))
    csv = source("csv", "id bigint, name string, at timestamp", {"header": "true"})
    pieces = [
        (source(), planned(written(tmp_path, "two.json", two))),
        (csv, planned(written(tmp_path, "a.csv", in_csv))),
        (source(), planned(written(tmp_path, "packed.json.gz", packed))),
        (source(), planned(written(tmp_path, "killed_from_outside.json", lines((5, "KILL!"))))),
        (source(), planned(written(tmp_path, "hungry.json", hungry))),
        (source("parquet"), planned(tmp_path / "one.parquet")),
        (source(), replace(half_known, poison=(at(known, 3, "before"),))),
    ]
    segmentation, memory = "signal SIGSEGV", "it needs more than 1024 MiB of memory"
    assert search("sales", [trial(of, piece) for of, piece in pieces], LEAST_MEMORY) == [
        [at(two, 17, segmentation), at(two, 298, "signal SIGABRT")],
        [at(in_csv, 101, segmentation)],
        [at(packed, 123, segmentation)],
        [],
        [at(hungry, 200, memory)],
        [PoisonSpan.of_file(memory)],
        [at(known, 4, segmentation)],
    ]


def offsets(deadly: set[int], tried: list[OffsetSlice]) -> Callable[[FileSlice | OffsetSlice], Death | None]:
    def reads(piece: FileSlice | OffsetSlice) -> Death | None:
        assert isinstance(piece, OffsetSlice)
        tried.append(piece)
        return Death("signal SIGSEGV") if any(piece.first <= each < piece.last for each in deadly) else None

    return reads


def spans_of(deadly: set[int], is_late: Callable[[], bool] = lambda: False) -> tuple[list[PoisonSpan], int]:
    """What is found in a million offsets, and by how many tries."""
    tried: list[OffsetSlice] = []
    piece = OffsetSlice(0, Partition("sales", 0, "A" * 22), 5_000, 1_005_000)
    return find_poison(piece, offsets(deadly, tried), is_late, indivisible=False), len(tried)


@pytest.mark.parametrize("deadly", [set[int](), {5_000}, {1_004_999}, {77_777}, {77_777, 77_778, 900_000}])
def test_offsets_are_halved_until_one_is_left(deadly: set[int]) -> None:
    found, tries = spans_of(deadly)
    assert found == [PoisonSpan(offset, offset + 1, "signal SIGSEGV") for offset in sorted(deadly)]
    assert tries <= 2 + len(deadly) * (2 * 20 + 1)


def test_who_sends_much_poison_does_not_choose_the_work() -> None:
    deadly = set(range(5_000, 1_005_000, 1_000))
    found, tries = spans_of(deadly)
    assert tries < 400
    assert all(any(span.first <= each < span.last for span in found) for each in deadly)


def test_a_search_that_is_late_leaves_no_poison_outside_of_what_it_names() -> None:
    deadly = {77_777, 900_000}
    for most in range(1, 90, 4):
        asked = count()
        found, _ = spans_of(deadly, lambda asked=asked, most=most: next(asked) >= most)
        assert all(any(span.first <= each < span.last for span in found) for each in deadly), most
