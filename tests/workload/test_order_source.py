from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.settings import Home
from spark_jobs.workload.bad_input import DEFECT, DUPLICATE, LINE_DEFECTS, ORDER_DEFECTS
from spark_jobs.workload.order_source import LINE_COLUMNS, ORDER_COLUMNS, OrderSource
from spark_jobs.workload.tpch_files import in_plain_types, tables_folder
from tests.workload.conftest import SCALE

ORDERS = 1500


def source(home: Home, *, zipf: float = 1.0, seed: int = 1, bad_share: float = 0.0) -> OrderSource:
    return OrderSource(tables_folder(home, SCALE), zipf=zipf, seed=seed, bad_share=bad_share)


def generated(home: Home, table: str, columns: list[str]) -> pa.Table:
    path = tables_folder(home, SCALE) / f"{table}.parquet"
    return in_plain_types(pyarrow.parquet.read_table(path, columns=columns)).select(columns)


def test_without_skew_a_round_is_tpch_itself(tpch_home: Home) -> None:
    taken = source(tpch_home, zipf=0).take(0, ORDERS)
    assert taken.orders.drop_columns([DEFECT]).equals(generated(tpch_home, "orders", ORDER_COLUMNS))
    assert taken.lines.drop_columns([DEFECT]).equals(generated(tpch_home, "lineitem", LINE_COLUMNS))


def test_lines_stand_with_their_orders(tpch_home: Home) -> None:
    taken = source(tpch_home).take(100, 250)
    keys = np.repeat(taken.orders["o_orderkey"].to_numpy(), taken.lines_per_order)
    assert keys.tolist() == taken.lines["l_orderkey"].to_pylist()
    assert taken.lines_per_order.min() >= 1


@given(cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_an_order_depends_on_its_number_and_not_on_how_it_is_taken(tpch_home: Home, cuts: list[int]) -> None:
    borders = sorted({0, 4000, *cuts})
    numbers = source(tpch_home, bad_share=0.1)
    whole = numbers.take(0, 4000)
    pieces = [numbers.take(start, stop - start) for start, stop in itertools.pairwise(borders)]
    assert pa.concat_tables(piece.orders for piece in pieces).equals(whole.orders)
    assert pa.concat_tables(piece.lines for piece in pieces).equals(whole.lines)


def test_nothing_can_be_taken(tpch_home: Home) -> None:
    taken = source(tpch_home).take(7, 0)
    assert (taken.orders.num_rows, taken.lines.num_rows, len(taken.lines_per_order)) == (0, 0, 0)


def test_keys_stay_unique_over_rounds(tpch_home: Home) -> None:
    taken = source(tpch_home).take(ORDERS - 10, 2 * ORDERS + 20)
    keys = taken.orders["o_orderkey"].to_numpy()
    assert len(set(keys)) == len(keys) == 2 * ORDERS + 20
    lines = list(zip(*(taken.lines[name].to_pylist() for name in ("l_orderkey", "l_linenumber")), strict=True))
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize(
    ("column", "table", "key"),
    [
        ("o_custkey", "customer", "c_custkey"),
        ("l_partkey", "part", "p_partkey"),
        ("l_suppkey", "supplier", "s_suppkey"),
    ],
)
def test_keys_are_drawn_from_the_real_ones_with_skew(tpch_home: Home, column: str, table: str, key: str) -> None:
    real = generated(tpch_home, table, [key])[key].to_pylist()
    taken = source(tpch_home, zipf=1.0).take(0, 10 * ORDERS)
    drawn = (taken.orders if column == "o_custkey" else taken.lines)[column].to_pylist()
    assert set(drawn) <= set(real)
    most_frequent = max(np.bincount(drawn)) / len(drawn)
    expected = np.log(2) / np.log(len(real) + 1)
    assert most_frequent == pytest.approx(expected, rel=0.1)


def test_seeds_decide_on_keys(tpch_home: Home) -> None:
    first, same, other = (source(tpch_home, seed=seed).take(0, 500).orders["o_custkey"] for seed in (1, 1, 2))
    assert first.equals(same)
    assert not first.equals(other)


def test_bad_input_is_marked_in_its_share_and_changes_no_key(tpch_home: Home) -> None:
    fine = source(tpch_home).take(0, 10 * ORDERS)
    spoiled = source(tpch_home, bad_share=0.2).take(0, 10 * ORDERS)
    assert spoiled.orders.drop_columns([DEFECT]).equals(fine.orders.drop_columns([DEFECT]))
    for rows, defects in ((spoiled.orders, ORDER_DEFECTS), (spoiled.lines, LINE_DEFECTS)):
        marks = rows[DEFECT].drop_null().to_pylist()
        assert len(marks) / rows.num_rows == pytest.approx(0.2, rel=0.1)
        assert set(marks) == {*defects, DUPLICATE}
