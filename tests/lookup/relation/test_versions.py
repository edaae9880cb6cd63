"""Versions of R's tuples in memory: gathered by key, and picked by time."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.copy_decoding.column_types import column_type
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.lookup.relation.relation_rows import RelationRows, fetched_at, rows_of
from spark_jobs.lookup.relation.relation_spec import (
    FetchedColumn,
    KeyColumn,
    RelationSpec,
    Validity,
    ValidityColumn,
)

MIDNIGHT = datetime(2026, 3, 1)
DATE_INFINITY, DATE_MINUS_INFINITY = 2**31 - 1, -(2**31)

unhurried = settings(deadline=None)  # the first call of a kernel compiles it


def spec_of(*key: str, validity: str = "timestamptz") -> RelationSpec:
    """A relation with key columns of these PostgreSQL types, which fetches a name."""
    kinds = {"int8": KeyKind.INTEGER, "text": KeyKind.TEXT}
    columns = tuple(KeyColumn(f"s{i}", f"k{i}", kinds[kind], column_type(kind, -1)) for i, kind in enumerate(key))
    begin, end = (ValidityColumn(name, column_type(validity, -1)) for name in ("valid_from", "valid_to"))
    return RelationSpec(
        "public", "r", columns, (FetchedColumn("name", "n", column_type("text", -1)),), Validity(begin, end)
    )


INTEGER = spec_of("int8")


def instants(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC"))


def tuples_of(*versions: tuple[int, int | None, int | None, str]) -> RelationRows:
    """Tuples of R from versions: key, begin, end, name."""
    keys, begins, ends, names = zip(*versions, strict=True)
    return rows_of([pa.array(keys), instants(list(begins)), instants(list(ends)), pa.array(names)], INTEGER)


def name_at(rows: RelationRows, row: int, time: int | None) -> str | None:
    fetched, valid = fetched_at(rows.columns, np.array([row]), instants([time]))
    (name,) = fetched["name"].to_pylist()
    assert (name is not None) == valid[0]
    return name


def test_the_versions_of_a_key_are_one_tuple_of_the_relation() -> None:
    rows = tuples_of((7, 10, None, "late"), (5, 0, 3, "other"), (7, 0, 10, "early"))
    assert rows.keys.codes.tolist() == [7, 5]
    assert [[version["fetched"]["name"] for version in each] for each in rows.columns["versions"].to_pylist()] == [
        ["early", "late"],
        ["other"],
    ]
    assert rows.columns.schema == INTEGER.rows_schema


@pytest.mark.parametrize(
    ("time", "name"),
    [(-1, None), (0, "first"), (9, "first"), (10, "second"), (19, "second"), (20, None), (29, None), (30, "third"),
     (2**62, "third"), (None, None)],
)  # fmt: skip
def test_a_version_is_valid_from_its_begin_until_just_before_its_end(time: int | None, name: str | None) -> None:
    rows = tuples_of((1, 0, 10, "first"), (1, 10, 20, "second"), (1, 30, None, "third"))
    assert name_at(rows, 0, time) == name


def test_of_versions_that_overlap_the_one_that_began_last_is_picked() -> None:
    rows = tuples_of((1, 0, None, "always"), (1, 10, 20, "a while"), (1, 12, 14, "shortly"))
    assert [name_at(rows, 0, time) for time in (9, 10, 12, 14, 19, 20)] == [
        "always", "a while", "shortly", "a while", "a while", "always",
    ]  # fmt: skip


def test_a_version_without_begin_is_never_valid_and_one_that_ends_when_it_begins_neither() -> None:
    rows = tuples_of((1, None, None, "never"), (2, 5, 5, "no time"))
    assert [name_at(rows, row, time) for row in (0, 1) for time in (0, 5, 2**62)] == [None] * 6


def test_stream_tuples_that_found_nothing_get_nulls() -> None:
    rows = tuples_of((1, 0, None, "a"))
    fetched, valid = fetched_at(rows.columns, np.array([-1, 0]), instants([5, 5]))
    assert fetched.to_pydict() == {"name": [None, "a"]}
    assert valid.tolist() == [False, True]


def test_a_relation_without_tuples_has_no_version() -> None:
    fetched, valid = fetched_at(RelationRows.empty(INTEGER).columns, np.array([-1, -1]), instants([5, None]))
    assert fetched.schema == INTEGER.fetched_schema
    assert valid.tolist() == [False, False]


def test_tuples_keep_their_versions_when_they_are_taken_and_put_together() -> None:
    first, second = tuples_of((1, 0, 9, "a"), (1, 9, None, "b"), (2, 0, None, "c")), tuples_of((3, 0, None, "d"))
    rows = RelationRows.concatenate([first.take(np.array([1, 0])), second, RelationRows.empty(INTEGER)])
    assert [name_at(rows, row, 9) for row in range(3)] == ["c", "b", "d"]


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
def test_a_timestamp_without_a_zone_is_taken_as_utc(kind: str) -> None:
    spec = spec_of("int8", validity=kind)
    arrow = spec.validity.begin.type.arrow
    rows = rows_of([pa.array([1]), pa.array([MIDNIGHT], arrow), pa.nulls(1, arrow), pa.array(["a"])], spec)
    time = int((MIDNIGHT - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    assert [name_at(rows, 0, time + each) for each in (-1, 0)] == [None, "a"]


def test_a_date_is_the_start_of_its_day_in_utc() -> None:
    spec = spec_of("int8", validity="date")
    days = pa.array([(day - date(1970, 1, 1)).days for day in (date(2026, 3, 1), date(2026, 3, 2))], pa.int32())
    begins = pa.concat_arrays([days, pa.array([DATE_MINUS_INFINITY], pa.int32())]).view(pa.date32())
    ends = pa.array([days[1].as_py(), DATE_INFINITY, days[0].as_py()], pa.int32()).view(pa.date32())
    rows = rows_of([pa.array([1, 1, 1]), begins, ends, pa.array(["first", "second", "before"])], spec)
    start = int((MIDNIGHT - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    day = 86_400_000_000
    times = (-(2**62), start - 1, start, start + day - 1, start + day, 2**62)
    assert [name_at(rows, 0, time) for time in times] == ["before", "before", "first", "first", "second", "second"]


class Version(NamedTuple):
    key: int
    begin: int
    end: int | None
    name: str


versions = st.lists(
    st.builds(
        Version, st.integers(0, 4), st.integers(0, 12), st.none() | st.integers(0, 14), st.text("ab", max_size=3)
    ),
    max_size=25,
    unique_by=lambda version: (version.key, version.begin),
)
events = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(-1, 15)), max_size=20)


@unhurried
@pytest.mark.parametrize("key", [("int8",), ("text",), ("text", "int8")])
@given(versions, events)
def test_events_find_what_a_search_through_all_versions_finds(
    key: tuple[str, ...], stored: list[Version], happened: list[tuple[int, int | None]]
) -> None:
    spec = spec_of(*key)
    encoded = [
        pa.array([version.key if kind == "int8" else f"key {version.key}" for version in stored],
                 pa.int64() if kind == "int8" else pa.string())
        for kind in key
    ]  # fmt: skip
    begins, ends = instants([version.begin for version in stored]), instants([version.end for version in stored])
    rows = rows_of([*encoded, begins, ends, pa.array([version.name for version in stored], pa.string())], spec)
    keys = list(dict.fromkeys(version.key for version in stored))  # a tuple of R for each, as they occur
    assert len(rows) == len(keys)
    found = np.array([keys.index(number) if number in keys else -1 for number, _ in happened], np.int64)
    fetched, valid = fetched_at(rows.columns, found, instants([time for _, time in happened]))
    expected = [_valid_version(stored, *event) for event in happened]
    assert fetched["name"].to_pylist() == [version and version.name for version in expected]
    assert valid.tolist() == [version is not None for version in expected]


def _valid_version(stored: list[Version], key: int, time: int | None) -> Version | None:
    if time is None:
        return None
    candidates = [
        version
        for version in stored
        if version.key == key and version.begin <= time and (version.end is None or time < version.end)
    ]
    return max(candidates, key=lambda version: version.begin, default=None)
