"""Bit vectors by hash: which streams have a key, known by one look."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.columns import hashing
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable

ALL = 0b111


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def unmixed(code: int) -> int:
    """The key with a hash code: the finaliser of splitmix64 backwards."""

    def unshift(value: int, by: int) -> int:
        found = value
        for _ in range(64 // by + 1):
            found = value ^ (found >> by)
        return found

    mask = (1 << 64) - 1
    code = unshift(code, 31)
    code = code * pow(int(hashing._SECOND), -1, 1 << 64) & mask
    code = unshift(code, 27)
    code = code * pow(int(hashing._FIRST), -1, 1 << 64) & mask
    code = (unshift(code, 30) - int(hashing._GOLDEN)) & mask
    return code - (1 << 64) if code >> 63 else code


def test_a_key_is_complete_with_the_last_stream_that_was_wanted() -> None:
    table = BitVectorTable(10)
    assert table.add(0, int64(5, 7), ALL).tolist() == []
    assert table.add(2, int64(7, 8), ALL).tolist() == []
    assert table.add(1, int64(8, 7, 7), ALL).tolist() == [1, 2]
    assert table.add(1, int64(5), 0b011).tolist() == [0]
    assert table.bits_of(int64(5, 7, 8, 9)).tolist() == [0b011, 0b111, 0b110, 0]
    table.check()
    assert len(table) == 3


def test_what_is_complete_already_is_not_newly_so() -> None:
    table = BitVectorTable(10)
    table.add(0, int64(5), 0b11)
    assert table.add(1, int64(5, 5), 0b11, newly=True).tolist() == [0]
    assert table.add(0, int64(5), 0b11, newly=True).tolist() == []


def test_an_entry_takes_six_bytes_and_what_is_left_free() -> None:
    assert BitVectorTable.bytes_for(8_000_000) == pytest.approx(6 * 8_000_000 * 10 / 8 * 64 / 60, rel=1e-3)
    table = BitVectorTable(1000)
    assert table.memory_used() == BitVectorTable.bytes_for(1000)
    exact = BitVectorTable(1000, exact=True)
    assert exact.memory_used() == BitVectorTable.bytes_for(1000, exact=True)


def test_sixteen_streams_have_a_bit_each() -> None:
    table = BitVectorTable(4)
    for stream in range(15):
        assert table.add(stream, int64(-1), 0xFFFF).size == 0
    assert table.add(15, int64(-1), 0xFFFF).tolist() == [0]
    assert table.bits_of(int64(-1)).tolist() == [0xFFFF]


@pytest.mark.parametrize("exact", [False, True])
def test_more_entries_than_a_line_takes_go_to_the_next_and_come_back(exact: bool) -> None:
    table = BitVectorTable(40, exact=exact)
    # All at home in one line: equal upper halves.
    keys = int64(*(unmixed((0xF0000000 << 32) + tag) for tag in range(1, 41)))
    table.add(0, keys, 1)
    table.check()
    assert table.bits_of(keys).tolist() == [1] * 40
    table.remove(keys[:35])
    table.check()
    assert table.bits_of(keys).tolist() == [0] * 35 + [1] * 5
    table.remove(keys)
    assert len(table) == 0
    assert not table._halves[:, 20:].any()


def test_keys_that_share_hash_and_line_share_an_entry_unless_entries_hold_keys() -> None:
    twins = int64(*(unmixed((upper << 32) + 77) for upper in (1, 2)))
    shared, exact = BitVectorTable(8), BitVectorTable(8, exact=True)
    for table in (shared, exact):
        table.add(0, twins[:1], 0b11)
    assert shared.add(1, twins[1:], 0b11).tolist() == [0]
    assert exact.add(1, twins[1:], 0b11).tolist() == []
    assert exact.bits_of(twins).tolist() == [0b01, 0b10]
    assert (len(shared), len(exact)) == (1, 2)


def test_hashes_with_most_bits_are_found_first() -> None:
    table = BitVectorTable(100)
    for stream in range(5):
        table.add(stream, np.arange(stream, 50, dtype=np.int64), 0)
    # Key k is in the streams up to k: 46 keys in five, and one each in 1 to 4.
    assert table.fewest_bits(5 * 46) == 5
    assert table.fewest_bits(5 * 46 + 1) == 4
    assert table.fewest_bits(10_000) == 1
    hashes = np.empty(100, np.int64)
    count, _ = table.hashes_with(5, 1000, 3, hashes)
    assert sorted(hashes[:count]) == sorted(hashing.hash_int64(np.arange(4, 50)) & 0xFFFFFFFF)
    count, _ = table.hashes_with(5, 20, 0, hashes)
    assert count == 4


def test_a_table_of_no_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        BitVectorTable(0)
