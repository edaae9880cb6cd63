"""The columns, types and ids that a sample file tells of."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.authoring.fact_ddl import fact_ddl
from spark_jobs.authoring.new_pipeline import definition_text, streams_text, write_definition
from spark_jobs.authoring.sample import Sample, read_sample
from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError
from spark_jobs.source.records.formats import decode_records


def written(folder: Path, name: str, *lines: str) -> Path:
    file = folder / name
    content = "\n".join(lines).encode()
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return file


def kinds(sample: Sample) -> dict[str, str]:
    return {name: str(kind) for name, kind in sample.columns.items()}


def test_json_numbers_texts_and_times(tmp_path: Path) -> None:
    sample = read_sample(
        written(
            tmp_path,
            "sales.json",
            '{"id": 1, "price": 12.50, "rate": 1e-7, "paid": true, "on": "2024-01-02", "at": "2024-01-02T03:04:05Z"}',
            '{"id": 2, "price": 3, "rate": 2.5, "paid": false, "on": null, "at": "2024-01-02 03:04:06", "tags": ["a"]}',
        )
    )
    assert kinds(sample) == {
        "id": "bigint",
        "price": "decimal(10,2)",
        "rate": "double",
        "paid": "boolean",
        "on": "date",
        "at": "timestamp",
        "tags": "string",
    }
    assert (sample.event_id, sample.event_time, sample.records) == (("id",), "at", 2)


def test_csv_of_other_separators_with_a_header_and_packed(tmp_path: Path) -> None:
    sample = read_sample(
        written(tmp_path, "sales.csv.gz", "id;at;note", '7;2024-01-02T03:04:05Z;"a; b"', "8;2024-01-02T03:04:05Z;")
    )
    assert kinds(sample) == {"id": "bigint", "at": "timestamp", "note": "string"}
    assert sample.options == {"sep": ";", "header": "true"}


def test_codes_with_leading_zeros_are_no_numbers_and_computed_floats_no_decimals(tmp_path: Path) -> None:
    csv = written(tmp_path, "shops.csv", "shop,postcode,phone,balance", "1,01234,+49301,0.50", "2,91234,+49302,-0.25")
    assert kinds(read_sample(csv)) == {
        "shop": "bigint",
        "postcode": "string",
        "phone": "string",
        "balance": "decimal(9,2)",
    }
    json = written(tmp_path, "rates.json", '{"id": 1, "rate": 0.30000000000000004}', '{"id": 2, "rate": 0.1}')
    assert kinds(read_sample(json)) == {"id": "bigint", "rate": "double"}


def test_csv_without_a_header(tmp_path: Path) -> None:
    sample = read_sample(written(tmp_path, "sales.csv", "1,2024-01-02T03:04:05Z", "2,2024-01-02T03:04:05Z"))
    assert kinds(sample) == {"column_1": "bigint", "column_2": "timestamp"}
    assert sample.options == {}


def test_parquet_has_its_types_and_an_id_may_have_two_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "order": pa.array([1, 1, 2], pa.int64()),
            "line": pa.array([1, 2, 1], pa.int32()),
            "price": pa.array([Decimal("1.50")] * 3, pa.decimal128(15, 2)),
            "shipped": pa.array([date(2024, 1, 2)] * 3),
            "at": pa.array([datetime(2024, 1, 2, tzinfo=UTC)] * 3),
        }
    )
    pq.write_table(table, tmp_path / "lines.parquet")
    sample = read_sample(tmp_path / "lines.parquet")
    assert kinds(sample) == {
        "order": "bigint",
        "line": "int",
        "price": "decimal(15,2)",
        "shipped": "date",
        "at": "timestamp",
    }
    assert sample.event_id == ("order", "line")


@pytest.mark.parametrize("value", ["9223372036854775808", "0.1", "-17", "1E3", "123456789012345678901234567890.5"])
def test_what_is_told_of_numbers_takes_them(tmp_path: Path, value: str) -> None:
    line = f'{{"v": {value}, "id": 1}}'
    sample = read_sample(written(tmp_path, "n.json", line))
    decoded = decode_records(pa.array([line.encode()]), "json", sample.columns)
    assert decoded.tuples["v"].null_count == 0


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("sales.txt", "1", "its name tells no format"),
        ("sales.json", "[1]", "line 1: is no object"),
        ("sales.json", "{", "line 1: is not JSON"),
        ("sales.csv", "", "holds no records"),
        ("sales.parquet", "x", "is not Parquet"),
    ],
)
def test_a_file_that_is_no_sample_is_refused(tmp_path: Path, name: str, line: str, told: str) -> None:
    with pytest.raises(FreshetError, match=told):
        read_sample(written(tmp_path, name, line))


def test_a_definition_is_written_that_loads(tmp_path: Path) -> None:
    sample = read_sample(
        written(tmp_path, "sales.csv", "Sale No,at,on", "1,2024-01-02T03:04:05Z,a", "2,2024-01-02T03:04:05Z,b")
    )
    file = write_definition(definition_text("sales", sample, "sales.csv"), "sales", tmp_path)
    definition = load_definition(file)
    assert definition.source.event_id == ("Sale No",)
    assert definition.fact.columns == {"sale_no": "Sale No", "at": "at", "on": "on", "batch_no": "_batch_no"}
    with pytest.raises(FreshetError, match="There is a pipeline 'sales'"):
        write_definition(definition_text("sales", sample, "sales.csv"), "sales", tmp_path)


def test_without_a_time_there_is_no_freshness(tmp_path: Path) -> None:
    sample = read_sample(written(tmp_path, "sales.json", '{"id": 1}'))
    with pytest.raises(FreshetError, match="has no column of timestamps"):
        definition_text("sales", sample, "sales.json")


ORDERS = ("order_id,items,ordered_at", "100,1,2024-01-02T03:04:05Z", "101,2,2024-01-02T03:04:05Z")
PAYMENTS = ("payment_id,quantity,order,paid_at", "1,2,100,2024-01-02T03:04:06Z", "2,1,101,2024-01-02T03:04:06Z")


def samples_of(folder: Path, **lines: Sequence[str]) -> dict[str, tuple[Sample, str]]:
    """Samples of streams, as CSV."""
    return {name: (read_sample(written(folder, f"{name}.csv", *of)), f"{name}.csv") for name, of in lines.items()}


def test_a_definition_of_several_streams_is_written_that_loads(tmp_path: Path) -> None:
    samples = samples_of(tmp_path, orders=ORDERS, payments=PAYMENTS)
    definition = load_definition(write_definition(streams_text("paid", samples), "paid", tmp_path))
    # 1 and 2 are values of all four columns but the order's: the ids count more.
    assert definition.shape.on == {"orders": ("order_id",), "payments": ("order",)}
    assert definition.fact.columns["orders_items"] == "orders.items"
    assert definition.fact.columns["completed_at"] == "_completed_at"
    assert fact_ddl(definition, {}).startswith("CREATE SCHEMA IF NOT EXISTS warehouse;")


def test_no_folder_is_chosen_that_another_pipeline_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_HOME", str(tmp_path / "home"))
    sample = tmp_path / "sales.json"
    sample.write_text('{"sale": 1, "at": "2024-01-02T03:04:05Z"}')
    seen, folder = read_sample(sample), tmp_path / "pipelines"
    folder.mkdir()
    write_definition(definition_text("sold", seen, "s", path=f"{tmp_path}/home/landing/sales/"), "sold", folder)
    with pytest.raises(FreshetError, match=r"sold.yaml reads .*landing/sales already.*--path"):
        write_definition(definition_text("sales", seen, "s"), "sales", folder)
    assert [file.name for file in folder.glob("*.yaml")] == ["sold.yaml"]
    write_definition(definition_text("sales", seen, "s", path="${FRESHET_HOME}/landing/other"), "sales", folder)
    streams = streams_text("paid", {"sales": (seen, "s"), "orders": (seen, "s")})
    definition = load_definition(write_definition(streams, "paid", folder))
    paths = [source.path for source in definition.streams.values()]
    assert paths == ["${FRESHET_HOME}/landing/paid/sales", "${FRESHET_HOME}/landing/paid/orders"]
