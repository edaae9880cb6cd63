"""TPC-H orders with their lines as an endless, numbered sequence."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from spark_jobs.workload.bad_input import DEFECT, LINE_DEFECTS, ORDER_DEFECTS, choose_defects
from spark_jobs.workload.tpch_files import in_plain_types
from spark_jobs.workload.zipf import IntArray, ZipfKeys

ORDER_COLUMNS = [
    "o_orderkey",
    "o_custkey",
    "o_orderstatus",
    "o_totalprice",
    "o_orderdate",
    "o_orderpriority",
    "o_clerk",
    "o_shippriority",
    "o_comment",
]
LINE_COLUMNS = [
    "l_orderkey",
    "l_linenumber",
    "l_partkey",
    "l_suppkey",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_shipdate",
    "l_shipmode",
]


@dataclass(frozen=True)
class Orders:
    """Consecutive orders and their lines.

    Attributes:
        orders: ORDER_COLUMNS and DEFECT, shape (n,).
        lines: LINE_COLUMNS and DEFECT, in the orders' sequence, shape (m,).
        lines_per_order: shape (n,); sums up to m.
    """

    orders: pa.Table
    lines: pa.Table
    lines_per_order: IntArray

    def cut(self, start: int, stop: int) -> Orders:
        """The orders at positions start..stop-1, with their lines."""
        counts = self.lines_per_order[start:stop]
        first_line = int(self.lines_per_order[:start].sum())
        return Orders(self.orders.slice(start, stop - start), self.lines.slice(first_line, int(counts.sum())), counts)


class OrderSource:
    """Orders by their number: what number n holds depends on the files, the skew and the seed alone.

    When TPC-H's orders are used up, they begin again with o_orderkey shifted by the largest key, once for each
    round: keys stay unique for ever.

    The customer of each order, and part and supplier of each line, are drawn anew by Zipf's law from the real
    ones. Popularity is dealt out in shuffled order: it has nothing to do with the order of the keys.

    Args:
        folder: TPC-H tables as Parquet.
        zipf: exponent of Zipf's law; 0 keeps TPC-H's own keys.
        seed: equal seeds draw equal keys and defects.
        bad_share: share of orders, and of lines, that are marked to be spoiled.
    """

    def __init__(self, folder: Path, *, zipf: float, seed: int, bad_share: float = 0.0) -> None:
        self._orders = pyarrow.parquet.ParquetFile(folder / "orders.parquet")
        self._lines = pyarrow.parquet.ParquetFile(folder / "lineitem.parquet")
        self._seed = seed
        self._bad_share = bad_share
        self._drawn: dict[str, ZipfKeys] = {}
        if zipf > 0:
            relations = {
                "o_custkey": ("customer", "c_custkey"),
                "l_partkey": ("part", "p_partkey"),
                "l_suppkey": ("supplier", "s_suppkey"),
            }
            for number, (column, (table, key)) in enumerate(relations.items()):
                keys = pyarrow.parquet.read_table(folder / f"{table}.parquet", columns=[key])[key].to_numpy()
                self._drawn[column] = ZipfKeys(keys, zipf, shuffle_seed=(seed, number))
        self._line_ranges = _key_ranges(self._lines)
        groups = self._orders.metadata
        self._group_starts = np.cumsum([0] + [groups.row_group(i).num_rows for i in range(groups.num_row_groups)])
        self._round_length = groups.num_rows
        self._key_span = int(_key_ranges(self._orders)[-1, 1])
        self._block = lru_cache(maxsize=1)(self._read_block)

    def take(self, first: int, count: int) -> Orders:
        """The orders numbered first..first+count-1."""
        pieces: list[Orders] = []
        while count > 0 or not pieces:
            number_of_round, position = divmod(first, self._round_length)
            group = int(np.searchsorted(self._group_starts, position, side="right")) - 1
            start = position - int(self._group_starts[group])
            stop = min(start + count, int(self._group_starts[group + 1] - self._group_starts[group]))
            pieces.append(self._block(number_of_round, group).cut(start, stop))
            first += stop - start
            count -= stop - start
        return Orders(
            pa.concat_tables(piece.orders for piece in pieces),
            pa.concat_tables(piece.lines for piece in pieces),
            np.concatenate([piece.lines_per_order for piece in pieces]),
        )

    def _read_block(self, number_of_round: int, group: int) -> Orders:
        """One row group of orders (up to some 90,000), with their lines."""
        orders = in_plain_types(self._orders.read_row_group(group, columns=ORDER_COLUMNS)).select(ORDER_COLUMNS)
        keys = orders["o_orderkey"].to_numpy()
        # Both files are sorted by the order's key.
        wanted = (self._line_ranges[:, 1] >= keys[0]) & (self._line_ranges[:, 0] <= keys[-1])
        lines = self._lines.read_row_groups(np.flatnonzero(wanted).tolist(), columns=LINE_COLUMNS)
        lines = in_plain_types(lines).select(LINE_COLUMNS)
        starts = np.searchsorted(lines["l_orderkey"].to_numpy(), np.append(keys, keys[-1] + 1))
        lines = lines.slice(int(starts[0]), int(starts[-1] - starts[0]))
        shift = number_of_round * self._key_span
        keys_random, defects_random = np.random.default_rng([self._seed, number_of_round, group]).spawn(2)
        orders = self._redraw(_replace(orders, "o_orderkey", keys + shift), keys_random)
        lines = self._redraw(_replace(lines, "l_orderkey", lines["l_orderkey"].to_numpy() + shift), keys_random)
        return Orders(
            self._mark_defects(orders, ORDER_DEFECTS, defects_random),
            self._mark_defects(lines, LINE_DEFECTS, defects_random),
            np.diff(starts),
        )

    def _redraw(self, rows: pa.Table, random: np.random.Generator) -> pa.Table:
        for column, keys in self._drawn.items():
            if column in rows.column_names:
                rows = _replace(rows, column, keys.draw(rows.num_rows, random))
        return rows

    def _mark_defects(self, rows: pa.Table, defects: Collection[str], random: np.random.Generator) -> pa.Table:
        return rows.append_column(DEFECT, pa.array(choose_defects(defects, rows.num_rows, self._bad_share, random)))


def _key_ranges(file: pyarrow.parquet.ParquetFile) -> IntArray:
    """Smallest and largest value of the first column in each row group; shape (groups, 2)."""
    groups = [file.metadata.row_group(i).column(0).statistics for i in range(file.metadata.num_row_groups)]
    return np.array([(group.min, group.max) for group in groups], dtype=np.int64)


def _replace(rows: pa.Table, column: str, values: IntArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(column), column, pa.array(values))
