"""The filter over held event ids: it overlooks none, and raises few false alarms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.loading.bloom_filter import BloomFilter


@settings(deadline=None)
@given(
    codes=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50),
    memory=st.sampled_from([1, 32, 1000, 1 << 16]),
)
def test_no_code_is_overlooked(codes: list[int], memory: int) -> None:
    held = BloomFilter(memory)
    array = np.array(codes, np.int64)
    assert not held.may_contain(array).any()
    held.add(array)
    assert held.may_contain(array).all()
    assert held.added == len(codes)


@pytest.mark.parametrize(("bits_per_code", "most_false_alarms"), [(64, 1e-5), (16, 0.002), (8, 0.05)])
def test_false_alarms_are_as_rare_as_promised(bits_per_code: int, most_false_alarms: float) -> None:
    memory = 1 << 18
    held = BloomFilter(memory)
    count = 8 * memory // bits_per_code
    held.add(hash_int64(np.arange(count)))
    strangers = hash_int64(np.arange(10**9, 10**9 + 500_000))
    assert held.may_contain(strangers).mean() <= most_false_alarms


@pytest.mark.parametrize("codes", [100_000, 1_000_000])
def test_what_a_filter_bears_is_one_false_alarm_in_a_hundred(codes: int) -> None:
    held = BloomFilter(BloomFilter.memory_for(codes))
    assert codes <= held.bears < codes + 24
    held.add(hash_int64(np.arange(held.bears)))
    assert held.may_contain(hash_int64(np.arange(10**9, 10**9 + 500_000))).mean() < 0.01
