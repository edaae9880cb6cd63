"""By which columns samples of several streams are joined: by names first, then by values not shared by chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_jobs.authoring.matching_columns import matching_columns
from spark_jobs.authoring.new_pipeline import streams_text, write_definition
from spark_jobs.authoring.sample import Sample, read_sample
from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError


def sampled(folder: Path, **streams: tuple[str, Sequence[str]]) -> dict[str, tuple[Sample, str]]:
    """Samples as CSV: the header, and the lines without their times, which are the same in all."""
    for stream, (header, lines) in streams.items():
        rows = [f"{line},2024-01-02T03:04:{second:02}Z" for second, line in enumerate(lines)]
        (folder / f"{stream}.csv").write_text("\n".join([f"{header},at", *rows]))
    return {stream: (read_sample(folder / f"{stream}.csv"), stream) for stream in streams}


def matched(folder: Path, **streams: tuple[str, Sequence[str]]) -> dict[str, str]:
    return matching_columns({stream: sample for stream, (sample, _) in sampled(folder, **streams).items()})


COUNT = range(1, 41)
ORDERS = ("order_id,customer", [f"{n},{n % 7}" for n in COUNT])


@pytest.mark.parametrize(
    ("orders", "payments", "on"),
    [
        pytest.param(ORDERS, ("payment_id,order_id", [f"{n},{n}" for n in COUNT]), "order_id", id="ids that all count"),
        pytest.param(ORDERS, ("payment_id,order_id", [f"{n},{n + 30}" for n in COUNT]), "order_id", id="few shared"),
        pytest.param(ORDERS, ("payment_id,order_id", [f"{n},{n + 90}" for n in COUNT]), "order_id", id="none shared"),
        pytest.param(ORDERS, ("paymentId,order", [f"{n},{n}" for n in COUNT]), "order", id="named after the stream"),
        pytest.param(ORDERS, ("order_id", [f"{n}" for n in COUNT]), "order_id", id="both are the event's id"),
        pytest.param(ORDERS, ("payment,paid_for", [f"P{n},{n + 20}" for n in COUNT]), "paid_for", id="by values alone"),
        pytest.param(
            ("sold_as,state", [f"{n},{n % 2}" for n in COUNT]),
            ("payment,state,paid_for", [f"P{n},{n % 2},{n + 20}" for n in COUNT]),
            "paid_for",
            id="a state is no key",
        ),
        pytest.param(
            ("id", [f"{n}" for n in COUNT]), ("id,order_id", [f"{n},{n}" for n in COUNT]), "order_id", id="id"
        ),
    ],
)
def test_the_columns_that_say_what_belongs_together(
    orders: tuple[str, list[str]], payments: tuple[str, list[str]], on: str, tmp_path: Path
) -> None:
    found = matched(tmp_path, orders=orders, payments=payments)
    assert found == {"orders": orders[0].partition(",")[0], "payments": on}


def test_three_streams_whose_ids_all_count(tmp_path: Path) -> None:
    parts = {
        "payments": ("payment_id,order_id", [f"{n},{n}" for n in COUNT]),
        "shipments": ("shipment_id,order_id", [f"{n},{41 - n}" for n in COUNT]),
    }
    assert matched(tmp_path, orders=ORDERS, **parts) == dict.fromkeys(["orders", *parts], "order_id")


def test_decimals_that_are_compared_are_as_wide_as_the_widest(tmp_path: Path) -> None:
    samples = sampled(
        tmp_path, orders=("code", ["12345678.5", "2.5", "3.5"]), payments=("payment,code", ["a,2.25", "b,3.50"])
    )
    definition = load_definition(write_definition(streams_text("paid", samples), "paid", tmp_path))
    assert definition.shape.on == {"orders": ("code",), "payments": ("code",)}
    assert {str(definition.tuples.columns[f"{stream}.code"]) for stream in samples} == {"decimal(16,2)"}


def test_without_a_guess_what_is_written_can_be_edited(tmp_path: Path) -> None:
    samples = sampled(tmp_path, orders=("code,size", ["A,1", "B,2"]), visits=("visit", ["7", "8"]))
    text = streams_text("seen", samples)
    assert "# ? No columns of the samples agree" in text
    definition = load_definition(write_definition(text, "seen", tmp_path))
    assert definition.shape.on == {"orders": ("size",), "visits": ("visit",)}


def test_streams_without_columns_of_one_type_are_refused_with_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"code": "A", "at": "2024-01-02T03:04:05Z"}')
    (tmp_path / "b.json").write_text('{"n": 1}')
    samples = {name: (read_sample(tmp_path / f"{name}.json"), name) for name in ("a", "b")}
    with pytest.raises(FreshetError, match=r"no columns of one type.*a: code string, at timestamp; b: n bigint"):
        streams_text("ab", samples)


@pytest.mark.parametrize("name", ["null", "yes", "true"])
def test_names_that_yaml_reads_as_something_else_stay_names(name: str, tmp_path: Path) -> None:
    samples = sampled(tmp_path, orders=ORDERS, payments=("payment_id,order_id", ["1,1"]))
    samples[name] = samples.pop("payments")
    definition = load_definition(write_definition(streams_text("paid", samples), "paid", tmp_path))
    assert list(definition.streams) == ["orders", name]
