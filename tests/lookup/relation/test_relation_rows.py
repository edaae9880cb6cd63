"""Tuples of R in memory."""

import numpy as np
import pyarrow as pa

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.lookup.relation.relation_rows import RelationRows


def rows(names: list[str], codes: list[int] | None = None) -> RelationRows:
    keys = KeyColumns.encode([pa.array(names, pa.string())], [KeyKind.TEXT])
    if codes is not None:
        keys = KeyColumns(keys.kinds, np.array(codes), keys.encoded, keys.valid)
    return RelationRows(keys, pa.table({"name": names}))


def test_take_and_concatenate_keep_keys_and_columns_together() -> None:
    both = RelationRows.concatenate([rows(["a", "b", "c"]).take(np.array([2, 0])), rows(["d"])])
    assert len(both) == 3
    assert both.keys.encoded.to_pylist() == [b"c", b"a", b"d"]
    assert both.columns.to_pydict() == {"name": ["c", "a", "d"]}
    assert both.columns["name"].num_chunks == 1


def test_of_tuples_that_share_a_code_joins_get_the_first() -> None:
    unique = rows(["a", "b", "c", "d"], [5, 3, 5, 1]).with_unique_codes()
    assert unique.columns["name"].to_pylist() == ["a", "b", "d"]
    assert unique.keys.codes.tolist() == [5, 3, 1]


def test_tuples_of_different_codes_are_left_alone() -> None:
    some = rows(["a", "b"])
    assert some.with_unique_codes() is some
