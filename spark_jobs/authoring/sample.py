"""Reads a sample of events: of which types its columns are, which tell events apart, and which says when they were."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.definition.ddl import StreamType
from spark_jobs.errors import FreshetError
from spark_jobs.source.records.csv_records import CsvLayout
from spark_jobs.source.records.decoded import MalformedRecordError
from spark_jobs.source.records.texts import from_texts

Format = Literal["json", "csv", "parquet"]

_SAMPLED_BYTES = 4 << 20
_SAMPLED_RECORDS = 20_000
_SUFFIXES: dict[str, Format] = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
}  # fmt: skip
_PACKED = (".gz", ".zst")
_SEPARATORS = ",;\t|"
# What a text is tried as, the narrowest first.
_NUMBERS = (StreamType("bigint"), StreamType("decimal", 38, 0), StreamType("double"))
_TIMES = (StreamType("date"), StreamType("timestamp"))
_DIGITS_TO_SPARE = 6
MOST_DIGITS = 38
"""Of a decimal."""
# More are those of a computed float, of which the next one may have more still.
_MOST_DECIMAL_PLACES = 6
# A code or a telephone number: what it begins with would be lost.
_NO_NUMBER = r"^(\+|-?0[0-9])"
ID_NAMES = ("id", "key", "uuid", "number", "no")
"""Names of columns that say of what they are an id only together with their stream's."""

LIKELY_ID = re.compile(rf"(?:.*_)?(?:{'|'.join(ID_NAMES)})", re.IGNORECASE)
"""Names of columns that likely tell events, or what they are of, apart."""

TIME_TYPES = ("timestamp", "date")
ID_TYPES = ("bigint", "int", "smallint", "tinyint", "string", "decimal", *TIME_TYPES)
"""Types of columns that may be an id."""


@dataclass(frozen=True)
class Sample:
    """What a sample file tells of its stream.

    Attributes:
        format: of the file.
        columns: in the file's order.
        options: how it is written, as `source.options` take it.
        event_id: the columns that tell the sample's records apart; empty where none and no two do.
        event_time: the first timestamp column that is nowhere null; None where there is none.
        records: how many were looked at.
        values: of each column, as texts, with nulls.
    """

    format: Format
    columns: dict[str, StreamType]
    options: dict[str, str]
    event_id: tuple[str, ...]
    event_time: str | None
    records: int
    values: dict[str, pa.Array]

    @property
    def told(self) -> str:
        """The columns with their types, as a message lists them."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())


@dataclass(frozen=True)
class _Column:
    """A column of the sample: texts and nulls, and whether the texts were numbers of JSON, or strings."""

    texts: pa.Array
    kind: StreamType

    @property
    def is_whole(self) -> bool:
        return self.texts.null_count == 0


def read_sample(path: Path) -> Sample:
    """Look at the first records of a file: some thousands, of at most 4 MiB. O(bytes read).

    A column's type is the narrowest that takes all of its values by the contract of source.records; numbers get some
    digits more than the sample needs.

    Raises:
        FreshetError: there is no such file, its name tells no format, or it holds no records.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    format_ = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if format_ is None:
        raise FreshetError(
            f"{path}: its name tells no format. Allowed: {', '.join(_SUFFIXES)}, also with .gz or .zst after it."
        )
    try:
        if format_ == "parquet":
            columns, options = _parquet_columns(path), dict[str, str]()
        elif format_ == "json":
            columns, options = _json_columns(_lines(path), path), {}
        else:
            columns, options = _csv_columns(_lines(path), path)
    except OSError as error:
        raise FreshetError(f"{path} can't be read: {error}.") from error
    if not columns:
        raise FreshetError(f"{path} holds no records.")
    return Sample(
        format_,
        {name: column.kind for name, column in columns.items()},
        options,
        _event_id(columns),
        next((name for name, each in columns.items() if each.kind.name == "timestamp" and each.is_whole), None),
        len(next(iter(columns.values())).texts),
        {name: column.texts for name, column in columns.items()},
    )


def _lines(path: Path) -> list[str]:
    with pa.input_stream(str(path), compression="detect") as stream:
        head = stream.read(_SAMPLED_BYTES)
    lines = head.decode("utf-8-sig", "replace").splitlines()
    if len(head) == _SAMPLED_BYTES and len(lines) > 1:
        lines.pop()  # cut off
    return [line for line in lines[: _SAMPLED_RECORDS + 1] if line.strip()]


class _Number(str):
    """A number as JSON writes it."""

    __slots__ = ()


def _json_columns(lines: Sequence[str], path: Path) -> dict[str, _Column]:
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
        except ValueError as error:
            raise FreshetError(f"{path}, line {number}: is not JSON: {error}. Write one object a line.") from None
        if not isinstance(row, dict):
            raise FreshetError(f"{path}, line {number}: is no object. Write one object a line.")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _json_column([row.get(name) for row in rows]) for name in names}


def _json_column(values: Sequence[object]) -> _Column:
    known = [value for value in values if value is not None]
    texts = pa.array([None if value is None else _text(value) for value in values], pa.string())
    if known and all(isinstance(value, bool) for value in known):
        return _Column(texts, StreamType("boolean"))
    if known and all(isinstance(value, _Number) for value in known):
        return _Column(texts, _narrowest(texts, _NUMBERS))
    plain = all(isinstance(value, str) and not isinstance(value, _Number) for value in known)
    return _Column(texts, _narrowest(texts, _TIMES) if plain else StreamType("string"))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str) else json.dumps(value)


def _csv_columns(lines: Sequence[str], path: Path) -> tuple[dict[str, _Column], dict[str, str]]:
    if not lines:
        return {}, {}
    sep = max(_SEPARATORS, key=lines[0].count)
    options = {} if sep == "," else {"sep": sep}
    layout = CsvLayout.from_options(options)
    try:
        rows = [[field.text or None for field in layout.fields(line)] for line in lines]
    except MalformedRecordError as error:
        raise FreshetError(f"{path}: {error}") from None
    first = rows[0]
    has_header = len(set(first)) == len(first) and all(re.fullmatch(r"[^\W\d][\w .-]*", each or "") for each in first)
    names = [cast("str", name) for name in first] if has_header else [f"column_{n + 1}" for n in range(len(first))]
    if has_header:
        options["header"] = "true"
    data = [row for row in rows[has_header:] if len(row) == len(names)]
    if not data:
        return {}, options
    arrays = [pa.array(values, pa.string()) for values in zip(*data, strict=True)]
    kinds = (*_NUMBERS, StreamType("boolean"), *_TIMES)
    return {n: _Column(texts, _narrowest(texts, kinds)) for n, texts in zip(names, arrays, strict=True)}, options


def _narrowest(texts: pa.Array, kinds: Sequence[StreamType]) -> StreamType:
    """The first of some types that takes all values; string where none does, or there is no value."""
    if texts.null_count == len(texts):
        return StreamType("string")
    if pc.any(pc.match_substring_regex(texts, _NO_NUMBER)).as_py():
        kinds = [kind for kind in kinds if kind not in _NUMBERS]
    for kind in kinds:
        wanted = _decimal_for(texts) if kind.name == "decimal" else kind
        if wanted is not None and from_texts(texts, wanted).faults is None:
            return wanted
    return StreamType("string")


def _decimal_for(texts: pa.Array) -> StreamType | None:
    """A decimal that holds numbers written so, and has digits to spare; None if they need too many, or an exponent."""
    parts = pc.extract_regex(texts.drop_null(), r"^-?(?P<whole>[0-9]+)(?:\.(?P<rest>[0-9]+))?$")
    if parts.null_count:
        return None
    whole, rest = (pc.max(pc.utf8_length(parts.field(n))).as_py() for n in range(2))
    digits = min(whole + rest + _DIGITS_TO_SPARE, MOST_DIGITS)
    fits = whole + rest <= MOST_DIGITS and rest <= _MOST_DECIMAL_PLACES
    return StreamType("decimal", digits, rest) if fits else None


def _parquet_columns(path: Path) -> dict[str, _Column]:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise FreshetError(f"{path} is not Parquet: {error}.") from error
    head = next(file.iter_batches(_SAMPLED_RECORDS), None)
    if head is None or not head.num_rows:
        return {}
    columns = {}
    for name, values in zip(head.schema.names, head.columns, strict=True):
        kind = _parquet_kind(values.type)
        if kind is None:
            raise FreshetError(
                f"{path}: column {name} is of type {values.type}, which facts can't have. Write it flat, or leave it "
                "out."
            )
        comparable = values if pa.types.is_binary(values.type) else values.cast(pa.string())
        columns[name] = _Column(comparable, kind)
    return columns


def _parquet_kind(stored: pa.DataType) -> StreamType | None:
    types = pa.types
    if types.is_decimal(stored):
        return StreamType("decimal", stored.precision, stored.scale)
    if types.is_dictionary(stored):
        stored = stored.value_type
    for is_kind, name in (
        (types.is_boolean, "boolean"),
        (types.is_int8, "tinyint"),
        (types.is_int16, "smallint"),
        (types.is_int32, "int"),
        (types.is_integer, "bigint"),
        (types.is_float32, "float"),
        (types.is_floating, "double"),
        (types.is_date, "date"),
        (types.is_timestamp, "timestamp"),
        (types.is_string, "string"),
        (types.is_large_string, "string"),
        (types.is_binary, "binary"),
    ):
        if is_kind(stored):
            return StreamType(name)
    return None


def _event_id(columns: dict[str, _Column]) -> tuple[str, ...]:
    """The columns, one or two, that tell all records apart; such as are called an id come first."""
    fit = [name for name, each in columns.items() if each.is_whole and each.kind.name in ID_TYPES]
    fit.sort(key=lambda name: (not LIKELY_ID.fullmatch(name), columns[name].kind.name in TIME_TYPES))
    for name in fit:
        if pc.count_distinct(columns[name].texts).as_py() == len(columns[name].texts):
            return (name,)
    for position, first in enumerate(fit):
        for second in fit[position + 1 :]:
            pairs = pa.table({"first": columns[first].texts, "second": columns[second].texts})
            if pairs.group_by(["first", "second"]).aggregate([]).num_rows == pairs.num_rows:
                return (first, second)
    return ()
