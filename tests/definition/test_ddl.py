from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.definition.ddl import TYPE_NAMES, parse_columns
from spark_jobs.errors import PipelineDefinitionError


def test_every_type_has_its_arrow_type() -> None:
    text = (
        "a bigint, b int, c smallint, d tinyint, e float, f double, g decimal(15,2), h boolean, i string, "
        "j varchar(10), k date, l timestamp, m binary"
    )
    assert [kind.arrow() for kind in parse_columns(text).values()] == [
        pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float32(), pa.float64(), pa.decimal128(15, 2), pa.bool_(),
        pa.string(), pa.string(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.binary(),
    ]  # fmt: skip
    assert len(parse_columns(text)) == len(TYPE_NAMES)


def test_columns_keep_their_order_and_synonyms_become_one_name() -> None:
    columns = parse_columns("z LONG, y Integer, `odd name` dec(5), x numeric comment 'x, y', w char(3), v byte")
    assert {name: str(kind) for name, kind in columns.items()} == {
        "z": "bigint", "y": "int", "odd name": "decimal(5,0)", "x": "decimal(10,0)", "w": "string", "v": "tinyint",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no column"),
        ("a int,", "a column is missing between two commas"),
        ("a", "'a' is not a column; write `name type`"),
        ("a: int", "'a: int' is not a column"),
        ("a bigintt", "unknown type 'bigintt'. Did you mean bigint?"),
        ("a array<int>, b int", "nested type 'array'"),
        ("a map<string, struct<x: int>>", "nested type 'map'"),
        ("a struct<x: int, y: int>", "Declare it as string to carry it as JSON text"),
        ("a int not null", "say NOT NULL in the fact table"),
        ("a int default 5", "'default 5' is not understood"),
        ("a int, A string", "column 'A' appears twice"),
        ("a decimal(39,2)", "decimal(39, 2) is not a decimal"),
        ("a decimal(5,6)", "decimal(5, 6) is not a decimal"),
        ("a decimal(5,2,1)", "decimal(5, 2, 1) is not a decimal"),
        ("a decimal(x)", "(x) is not understood"),
        ("a varchar", "varchar needs a length"),
        ("a bigint(20)", "bigint takes no (20)"),
        ("a timestamp_ntz", "use timestamp (read as UTC)"),
    ],
)
def test_a_wrong_schema_is_explained(text: str, message: str) -> None:
    with pytest.raises(PipelineDefinitionError) as error:
        parse_columns(text)
    assert message in str(error.value)
    assert text == "" or "Column types: bigint, int," in str(error.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(PipelineDefinitionError) as error:
        parse_columns("a bigintt, b array<int>, c int, c int")
    assert [line.split()[1] for line in str(error.value).splitlines()[:-1]] == ["'a'", "'b'", "'c'"]
