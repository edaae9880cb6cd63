"""Keys that no tuple of R can ever have, by the value that makes them so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.columns.copy_decoding.column_types import UUID_KEY, column_type
from spark_jobs.columns.keys.values import KEY_KINDS
from spark_jobs.definition.fates import CAN_NOT_MATCH
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.relation_spec import KeyColumn, RelationSpec
from spark_jobs.stages.screening import screen_keys

TIMES = pa.array([0], pa.timestamp("us", tz="UTC"))


def plan(position: int, rule: Any = "hold", **types: str) -> LookupPlan:
    """A lookup in `shop.r<position>` by stream columns with the types that R's columns of the same names have."""
    key = []
    for name, kind in types.items():
        read = UUID_KEY if kind == "uuid" else column_type(kind, -1)
        assert read is not None
        key.append(KeyColumn(name, name, KEY_KINDS[kind], read))
    spec = RelationSpec("shop", f"r{position}", tuple(key), ())
    return LookupPlan(position, spec, "auto", False, rule, {}, 0, None, None)


def rejected(tuples: pa.Table, *plans: LookupPlan) -> dict[int, str]:
    """Number of each rejected tuple -> its reason; that the others are possible is checked."""
    numbered = tuples.append_column("number", pa.array(range(tuples.num_rows)))
    numbered = numbered.append_column("at", pa.repeat(TIMES[0], tuples.num_rows))
    possible, held = screen_keys(numbered, [each.spec.stream_keys(numbered) for each in plans], plans, "at")
    assert {group.fate for group in held} <= {CAN_NOT_MATCH}
    pairs = [pair for group in held for pair in zip(group.tuples["number"].to_pylist(), group.reason, strict=True)]
    assert sorted(number for number, _ in pairs) == np.flatnonzero(~possible).tolist()
    return {number: reason.as_py().removeprefix("a key that can never match: ") for number, reason in pairs}


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        ("int8", pa.array([1, None, -(2**63)]), {1: "null"}),
        ("int4", pa.array([2**31 - 1, 2**31, -(2**31), -(2**31) - 1]), {1: "2147483648", 3: "-2147483649"}),
        ("int2", pa.array([32_767, 32_768], pa.int32()), {1: "32768"}),
        ("text", pa.array(["a", "", None, "b\0c", 'ä"']), {2: "null", 3: r'"b\u0000c"'}),
        ("text", pa.array([b"a", b"\xff"], pa.binary()).view(pa.string()), {1: r'"\\xff"'}),
        ("uuid", pa.array(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "unknown"]), {1: '"unknown"'}),
        ("date", pa.array([0, -2_440_589, None], pa.int32()).view(pa.date32()), {1: "-4713-11-23", 2: "null"}),
    ],
)
def test_a_key_that_r_can_not_hold_is_told_by_its_value(kind: str, values: pa.Array, told: dict[int, str]) -> None:
    equal = f", which equals no value of shop.r0.key ({kind})"
    expected = {number: f"key is {value}{equal}" for number, value in told.items()}
    assert rejected(pa.table({"key": values}), plan(0, key=kind)) == expected


def test_any_part_of_a_composite_key_of_any_lookup_counts_but_where_there_are_defaults() -> None:
    tuples = pa.table(
        {
            "a": pa.array([1, None, 3, 4, 5]),
            "b": pa.array(["x", "x", "\0", "x", "x"]),
            "c": pa.array([1, None, 3, None, 5]),
            "d": pa.array([None, 1, None, None, 5]),
        }
    )
    plans = plan(0, a="int8", b="text"), plan(1, "reject", c="int8"), plan(2, "default", d="int8")
    reasons = rejected(tuples, *plans)
    assert {number: reason.partition(",")[0] for number, reason in reasons.items()} == {
        1: "a is null",
        2: r'b is "\u0000"',
        3: "c is null",
    }
