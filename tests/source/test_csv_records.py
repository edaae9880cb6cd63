from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.source.records.csv_format import CsvFormat
from spark_jobs.source.records.csv_records import CsvDecoder, CsvLayout
from spark_jobs.source.records.decoded import merged
from tests.source.hostile_records import TEXTS, rows, same, spoilt
from tests.source.landed import source
from tests.source.landed_records import CSV_LINES

COLUMNS = parse_columns("i bigint, s string, d decimal(10,2), f double, b boolean, dt date, ts timestamp")
LAYOUTS = [
    CsvLayout(),
    CsvLayout(sep=";", quote="'"),
    CsvLayout(escape="\\"),
    CsvLayout(sep="\t", null="NA"),
    CsvLayout(sep="|", quote="^", escape="$"),
]
PIECES = [
    b"",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"\\",
    b"\0",
    b"\n",
    b"\r",
    b" ",
    b"\xff",
    b'""',
    b'","',
    b"\xef\xbb\xbf",
    b"^",
    b"|",
]


def decoder(layout: CsvLayout = LAYOUTS[0], header: list[str] | None = None) -> CsvDecoder:
    return CsvDecoder(COLUMNS, layout, header)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[CsvLayout, list[bytes]]:
    layout = draw(st.sampled_from(LAYOUTS))
    plain = ["1", "x", "1.5", "1e5", "true", "2024-01-02", "2024-01-02T03:04:05Z"]

    def written(text: str, quoted: bool) -> str:
        if not quoted:
            return text
        escaped = text.replace(layout.escape, layout.escape * 2)
        return (
            layout.quote
            + escaped.replace(layout.quote, layout.escape + layout.quote * (1 + layout.doubled))
            + layout.quote
        )

    lines = []
    for _ in range(draw(st.integers(0, 8))):
        fields = [draw(st.sampled_from([text, text, text, *TEXTS])) for text in plain]
        count = draw(st.sampled_from([7, 7, 7, 7, 6, 8]))
        line = layout.sep.join(written(text, draw(st.booleans())) for text in [*fields, "more"][:count])
        lines.append(spoilt(draw, line.encode(), PIECES))
    return layout, lines


@settings(deadline=None)
@given(blocks())
def test_a_block_gives_what_its_records_give_one_by_one(block: tuple[CsvLayout, list[bytes]]) -> None:
    layout, lines = block
    array = pa.array(lines, pa.binary())
    assert same(decoder(layout).decode(array), decoder(layout).decode_each(array))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_records_as_they_may_land_give_the_same_in_a_block_and_one_by_one(layout: CsvLayout) -> None:
    lines = [line.replace(b",", layout.sep.encode()) + layout.sep.encode() * 2 for line in CSV_LINES]
    array = pa.array(lines, pa.binary())
    assert same(decoder(layout).decode(array), decoder(layout).decode_each(array))
    alone = [(np.array([number]), decoder(layout).decode(array[number : number + 1])) for number in range(len(array))]
    assert same(merged(alone), decoder(layout).decode(array))


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from([text for text in TEXTS if "\n" not in text])] * 3), min_size=1, max_size=5)
)
def test_what_pythons_writer_writes_is_read_as_it_was_meant(texts: list[tuple[str, str, str]]) -> None:
    columns = parse_columns("a string, b string, c string")
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        file = io.StringIO()
        csv.writer(file, lineterminator="\n", quoting=quoting).writerows(texts)
        lines = pa.array(file.getvalue().encode().splitlines(), pa.binary())
        expected = [tuple(text or ("" if quoting == csv.QUOTE_ALL else None) for text in row) for row in texts]
        assert rows(CsvDecoder(columns, CsvLayout(), None).decode(lines)) == expected


def decoded(*lines: bytes, **options: str) -> list[tuple[object, ...] | str]:
    decode = CsvFormat().decoder(source("csv", "i bigint, s string", options, event_id="i"))
    return rows(decode(pa.array(lines, pa.binary())))


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"1,x", (1, "x")),
        (b"-007, x ", (-7, " x ")),
        (b",", (None, None)),
        (b'"",""', (None, "")),
        (b'"1","a,""b"""', (1, 'a,"b"')),
        (b"1,\x00\r'\\", (1, "\x00\r'\\")),
    ],
)
def test_what_a_line_says(line: bytes, values: tuple[object, ...]) -> None:
    assert decoded(line) == [values]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1", "malformed: 1 fields instead of 2"),
        (b"1,x,", "malformed: 3 fields instead of 2"),
        (b'1,a"b', 'malformed: " in field 2 that is not in quotes, or does not end them'),
        (b'1,"a"b', 'malformed: " in field 2 that is not in quotes, or does not end them'),
        (b'1,"a', 'malformed: " in field 2 that is not in quotes, or does not end them'),
        (b" 1,x", "malformed: i: ' 1' is no bigint (a whole number of 64 bits)"),
        (b"+1,x", "malformed: i: '+1' is no bigint (a whole number of 64 bits)"),
        (b"0x1F,x", "malformed: i: '0x1F' is no bigint (a whole number of 64 bits)"),
        (b"1,\xff", "malformed: not UTF-8: b'\\xff' at byte 2"),
    ],
)
def test_what_is_wrong_with_a_line(line: bytes, reason: str) -> None:
    assert decoded(line) == [reason]


def test_options_say_how_lines_are_written() -> None:
    assert decoded(b"1;'it''s;'", sep=";", quote="'") == [(1, "it's;")]
    assert decoded(b'1,"a\\"\\\\\\b"', escape="\\") == [(1, 'a"\\\\b')]
    assert decoded(b'1,"a""b"', escape="\\") == ['malformed: " in field 2 that is not in quotes, or does not end them']
    assert decoded(b"NA,NA", b'1,"NA"', b",", nullValue="NA") == [(None, None), (1, "NA"), (None, None)]


def test_held_records_are_read_by_the_header_that_each_carries() -> None:
    lines = [b"i,s\n1,x", b"s,more,i\ny,,2", b"i\n3", b"i,s,i\n4,x,4", b"i,s\nx,x"]
    assert decoded(*lines, header="true") == [
        (1, "x"),
        (2, "y"),
        "malformed header: column 's' is not in the header: 'i'",
        "malformed header: column 'i' is twice in the header: 'i,s,i'",
        "malformed: i: 'x' is no bigint (a whole number of 64 bits)",
    ]
