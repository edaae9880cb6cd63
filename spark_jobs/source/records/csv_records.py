"""CSV records: how a source writes them, whole blocks by arrow where they are plain, the others one by one.

Arrow is more lenient than the contract in places: a quote may stand in the middle of a field, an open one swallows
lines, a carriage return ends a line. Records in which one of these may be are kept from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.columns.copy_encoding.column_encoder import shown
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.decoded import (
    BYTE_ORDER_MARK,
    Decoded,
    MalformedRecordError,
    all_sound,
    arrow_schema,
    as_lines,
    as_text,
    complaint,
    holding,
    merged,
    not_utf8,
)
from spark_jobs.source.records.texts import Converted, from_texts

Bools = NDArray[np.bool_]


class Field(NamedTuple):
    """A field of a line: its text without quotes, and whether it stood in quotes."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class CsvLayout:
    """A source's options for CSV.

    Attributes:
        header: whether a file's first line names its columns.
        sep: the character between fields.
        quote: the character around a field that holds one of these.
        escape: the character that makes a quote, or itself, part of a quoted field; by default the quote.
        null: the text that stands for null, beside nothing at all, in fields without quotes.
    """

    header: bool = False
    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> CsvLayout:
        """The layout that a pipeline's `source.options` describe."""
        quote = options.get("quote", '"')
        return cls(
            header=options.get("header") == "true",
            sep=options.get("sep", ","),
            quote=quote,
            escape=options.get("escape", quote),
            null=options.get("nullValue", ""),
        )

    @property
    def doubled(self) -> bool:
        """Whether a quote in a quoted field is written twice."""
        return self.escape == self.quote

    @cached_property
    def field_pattern(self) -> str:
        """What a field looks like, for RE2 and Python alike; its content in group 1 if in quotes, else in group 2."""
        quote, sep, escape = (re.escape(each) for each in (self.quote, self.sep, self.escape))
        inside = f"[^{quote}]|{quote}{quote}" if self.doubled else rf"[^{quote}{escape}]|{escape}(?s:.)"
        return f"(?:{quote}((?:{inside})*){quote}|([^{quote}{sep}]*))"

    @cached_property
    def line_pattern(self) -> str:
        """What a line looks like, for RE2."""
        fields = self.field_pattern.replace("((?:", "(?:(?:").replace("|([", "|(?:[")
        return f"^{fields}(?:{re.escape(self.sep)}{fields})*$"

    def fields(self, line: str) -> Sequence[Field]:
        """Cut a line.

        Raises:
            MalformedRecordError: a quote stands where none may.
        """
        found = []
        position = 0
        while True:
            match = self._field.match(line, position)
            assert match is not None  # it matches nothing at all, too
            quoted = match[1] is not None
            found.append(Field(self._unescaped(match[1]) if quoted else match[2], quoted))
            position = match.end()
            if position == len(line):
                return found
            if line[position] != self.sep:
                raise MalformedRecordError(
                    f"malformed: {self.quote} in field {len(found)} that is not in quotes, or does not end them"
                )
            position += 1

    @cached_property
    def _field(self) -> re.Pattern[str]:
        return re.compile(self.field_pattern)

    def _unescaped(self, text: str) -> str:
        if self.escape not in text:
            return text
        if self.doubled:
            return text.replace(self.quote * 2, self.quote)
        return re.sub(f"{re.escape(self.escape)}([{re.escape(self.quote + self.escape)}])", r"\1", text)


class CsvDecoder:
    """Decodes the records of files with the same columns in the same order.

    Args:
        columns: the source's schema.
        layout: how the source writes CSV.
        header: the names in the header; None where there is none, and fields go by their position.

    Raises:
        MalformedRecordError: the header lacks a column, or has it twice.
    """

    def __init__(self, columns: Mapping[str, StreamType], layout: CsvLayout, header: Sequence[str] | None) -> None:
        self._columns = columns
        self._layout = layout
        names = list(columns) if header is None else list(header)
        for name in columns:
            if names.count(name) != 1:
                there = "twice" if name in names else "not"
                raise MalformedRecordError(f"column {name!r} is {there} in the header: {shown(layout.sep.join(names))}")
        self._fields = len(names)
        self._positions = [names.index(name) for name in columns]
        # Fields that are no columns may have any names, also twice.
        self._names = [str(position) for position in range(self._fields)]

    def decode(self, records: pa.Array) -> Decoded:
        """The tuples of records; about two microseconds each.

        Args:
            records: binary array without nulls, shape (n,): a line each.
        """
        odd = self._odd(records)
        numbers = np.arange(len(records))
        plain = records.filter(pa.array(~odd)) if odd.any() else records
        if len(plain):
            table, misfits = self._read_block(plain)
            odd[numbers[~odd][misfits]] = True
            columns = [
                self._converted(column.combine_chunks(), kind)
                for kind, column in zip(self._columns.values(), table.columns, strict=True)
            ]
            sound = np.ones(table.num_rows, np.bool_)
            for _, faults in columns:
                sound &= True if faults is None else ~faults
            tuples = pa.Table.from_arrays([values for values, _ in columns], schema=arrow_schema(self._columns))
            if sound.all() and not odd.any():
                return all_sound(tuples)
            read = numbers[~odd]
            odd[read[~sound]] = True
            kept = all_sound(tuples.filter(pa.array(sound)))
        else:
            kept = all_sound(arrow_schema(self._columns).empty_table())
        return merged([(numbers[~odd], kept), (numbers[odd], self.decode_each(records.filter(pa.array(odd))))])

    def decode_each(self, records: pa.Array) -> Decoded:
        """The same, one by one; some ten microseconds each."""
        lines: list[list[str | None]] = []
        reasons: list[str | None] = []
        for record in records.to_pylist():
            try:
                lines.append(self._cut(as_text(record)))
                reasons.append(None)
            except MalformedRecordError as error:
                lines.append([None] * len(self._columns))
                reasons.append(str(error))
        arrays = []
        for position, (name, kind) in enumerate(self._columns.items()):
            texts = [line[position] for line in lines]
            values, faults = self._converted(pa.array(texts, pa.string()), kind)
            for number in [] if faults is None else faults.nonzero()[0].tolist():
                reasons[number] = reasons[number] or complaint(name, shown(texts[number]), kind)
            arrays.append(values)
        malformed = pa.array([reason is not None for reason in reasons], pa.bool_())
        tuples = pa.Table.from_arrays(
            [pc.if_else(malformed, None, values) for values in arrays], schema=arrow_schema(self._columns)
        )
        return Decoded(tuples, pa.array(reasons, pa.string()))

    def _cut(self, line: str) -> list[str | None]:
        """The texts of the columns; None for null.

        Raises:
            MalformedRecordError: a quote stands where none may, or there are more or fewer fields than columns.
        """
        fields = self._layout.fields(line)
        if len(fields) != self._fields:
            raise MalformedRecordError(f"malformed: {len(fields)} fields instead of {self._fields}")
        chosen = [fields[position] for position in self._positions]
        nulls = {"", self._layout.null}
        return [None if not field.quoted and field.text in nulls else field.text for field in chosen]

    def _converted(self, texts: pa.Array, kind: StreamType) -> Converted:
        """Values of a column; nothing in quotes is a text, and null for all other types."""
        if kind.name != "string":
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
        return from_texts(texts, kind)

    def _read_block(self, records: pa.Array) -> tuple[pa.Table, NDArray[np.int64]]:
        """The columns as texts, and the numbers of the records that have too many or too few fields."""
        misfits: list[int] = []

        def note(row: pcsv.InvalidRow) -> str:
            misfits.append(row.number - 1)
            return "skip"

        block = as_lines(records)
        chosen = [self._names[position] for position in self._positions]
        table = pcsv.read_csv(
            pa.BufferReader(block),
            read_options=pcsv.ReadOptions(use_threads=False, block_size=block.size + 1, column_names=self._names),
            parse_options=pcsv.ParseOptions(
                delimiter=self._layout.sep,
                quote_char=self._layout.quote,
                double_quote=self._layout.doubled,
                invalid_row_handler=note,
            ),
            convert_options=pcsv.ConvertOptions(
                column_types={name: pa.string() for name in chosen},
                include_columns=chosen,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=["", self._layout.null],
            ),
        )
        assert table.num_rows + len(misfits) == len(records)
        return table, np.array(misfits, np.int64)

    def _odd(self, records: pa.Array) -> Bools:
        """Records that arrow would read otherwise than the contract says."""
        offsets, data = binary_parts(records)
        odd = (offsets[:-1] == offsets[1:]).astype(np.bool_)
        content = data[offsets[0] : offsets[-1]].tobytes()
        for sequence in (b"\r", b"\n", BYTE_ORDER_MARK):
            if sequence in content:
                odd |= holding(records, sequence)
        invalid = None if content.isascii() else not_utf8(records)
        if invalid is not None:
            odd |= invalid
        if self._layout.quote.encode() in content:
            quoted = holding(records, self._layout.quote.encode()) & ~odd
            numbers = quoted.nonzero()[0]
            lines = records.filter(pa.array(quoted)).cast(pa.string())
            well_formed = pc.match_substring_regex(lines, self._layout.line_pattern).to_numpy(zero_copy_only=False)
            odd[numbers[~well_formed]] = True
            if not self._layout.doubled and self._layout.escape.encode() in content:
                odd |= quoted & holding(records, self._layout.escape.encode())
        return odd
