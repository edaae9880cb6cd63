"""A pattern matches the keys that it says, and patterns can be joined and cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.joins.stream_stream.patterns import EMPTY, WILDCARD, Pattern, constant, enumeration, key_range

LOWEST, HIGHEST = -(2**63), 2**63 - 1
KEYS = np.array([LOWEST, LOWEST + 1, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, HIGHEST - 1, HIGHEST])
keys = st.sets(st.sampled_from(KEYS.tolist()))


def matched(pattern: Pattern) -> set[int]:
    return set(KEYS[pattern.matches(KEYS)].tolist())


def test_the_five_kinds_match_what_they_say() -> None:
    assert matched(EMPTY) == set()
    assert matched(WILDCARD) == set(KEYS.tolist())
    assert matched(constant(3)) == {3}
    assert matched(key_range(-1, 2)) == {-1, 0, 1, 2}
    assert matched(enumeration(np.array([5, -3, 5, 4]))) == {5, -3, 4}
    assert len(enumeration(np.array([5, -3, 5, 4]))) == 2


@given(keys, keys)
def test_and_matches_what_both_match_and_or_what_one_does(mine: set[int], theirs: set[int]) -> None:
    left, right = (enumeration(np.array(sorted(each), np.int64)) for each in (mine, theirs))
    assert matched(left) == mine
    assert matched(left & right) == mine & theirs
    assert matched(left | right) == mine | theirs
    assert matched(~left) == set(KEYS.tolist()) - mine
    assert ~~left == left
    assert left & ~left == EMPTY
    assert left & WILDCARD == left
    assert left | EMPTY == left
    assert left | WILDCARD == WILDCARD


def test_a_pattern_tells_its_keys_if_they_are_few() -> None:
    few = key_range(3, 5) | constant(HIGHEST)
    keys = few.keys(most=4)
    assert keys is not None
    assert keys.tolist() == [3, 4, 5, HIGHEST]
    assert few.keys(most=3) is None
    assert WILDCARD.keys(most=10) is None


def test_ranges_that_are_empty_or_touch_are_refused() -> None:
    with pytest.raises(ValueError, match="from 3 to 2 is empty"):
        key_range(3, 2)
    with pytest.raises(ValueError, match="neither overlap nor touch"):
        Pattern(np.array([1, 3]), np.array([2, 4]))
