"""Two keys that share a hash code: R is not kept whole then, so that neither is taken for absent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, OverlaidTuples
from spark_jobs.lookup.hot_keys.whole_tuples import WholeTuples
from spark_jobs.lookup.relation.relation_rows import RelationRows

# Codes as hashing might have it; no two real texts with one code are known.
CODES = {"a": 1, "b": 2, "c": 3, "a'": 1, "b'": 2}


def keys(*names: str) -> KeyColumns:
    encoded = KeyColumns.encode([pa.array(names, pa.string())], (KeyKind.TEXT,))
    return replace(encoded, codes=np.array([CODES[name] for name in names], np.int64))


def rows(*names: str) -> RelationRows:
    return RelationRows(keys(*names), pa.table({"name": pa.array(names, pa.string())}))


def found(whole: WholeTuples, *names: str) -> list[str | None]:
    """What is found of these keys: the tuple, "absent", or None where R has to be asked."""
    base = HotTuples.of(whole.hot_set, whole.base)
    tuples = base if whole.is_merged else OverlaidTuples(base, whole.overlay())
    slots, missing = tuples.find(keys(*names))
    columns, places = tuples.fetched(slots)
    values = columns["name"].take(pa.array(places, mask=places < 0)).to_pylist()
    return ["absent" if gone else value for gone, value in zip(missing, values, strict=True)]


def test_a_key_that_gets_the_code_of_another_one_ends_it() -> None:
    whole = WholeTuples.of(rows("a", "b"))
    assert found(whole, "a", "a'", "c") == ["a", None, "absent"]
    assert whole.with_changes(keys("a'"), rows("a'")) is None
    assert whole.with_changes(keys("a", "a'"), rows("a", "a'")) is None
    changed = whole.with_changes(keys("a"), rows("a"))
    assert changed is whole, "nothing has changed that is kept"


def test_a_key_may_take_the_place_of_another_one_of_its_code_that_is_gone() -> None:
    whole: WholeTuples | None = WholeTuples.of(rows("a", "b", "c"))
    for asked, now in ((("a", "b"), ()), (("a'",), ("a'",)), (("b'", "c"), ("c",))):
        assert whole is not None
        whole = replace(whole, published=0).with_changes(keys(*asked), rows(*now))
    assert whole is not None
    for layered in (whole, whole.merged()):
        assert found(layered, "a'", "b", "c") == ["a'", "absent", "c"]
        assert found(layered, "a") == [None], "its code is another one's: R tells"
        assert len(layered) == 2
    again = whole.with_changes(keys("a"), rows("a"))
    assert again is None, "R has both now"


def test_merged_with_the_others_it_stays_itself() -> None:
    whole = WholeTuples.of(rows("a", "b"))
    for asked, now in (("a", ()), ("a'", ("a'",))):
        whole = replace(whole.with_changes(keys(asked), rows(*now)) or whole, published=0)
    assert found(whole.merged(), "a'", "a", "b") == ["a'", None, "b"]


def test_the_end_of_a_key_that_was_not_hot_leaves_the_one_that_is() -> None:
    whole = WholeTuples.of(rows("a", "b")).with_changes(keys("a'"), rows())
    assert whole is not None
    assert found(whole, "a") == ["a"]


def test_what_a_key_has_hidden_does_not_come_back_when_that_one_ends() -> None:
    whole: WholeTuples | None = WholeTuples.of(rows("a", "b"))
    for asked, now in (("a", ()), ("a'", ("a'",)), ("a'", ())):
        assert whole is not None
        whole = replace(whole, published=0).with_changes(keys(asked), rows(*now))
    assert whole is not None
    assert found(whole, "a", "a'", "b") == ["absent", "absent", "b"]
    assert len(whole) == 1
