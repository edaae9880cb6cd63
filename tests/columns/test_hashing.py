"""Hash codes are the same for ever, and spread well."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.columns.hashing import combine, hash_bytes, hash_int64

MASK = 2**64 - 1
TEXTS = [b"", b"a", b"b", b"ab", b"1234567", b"12345678", b"123456789", b"\x00", b"\x00\x00", b"x" * 100, b"\xff" * 16]


def reference_mix(value: int) -> int:
    code = (value + 0x9E3779B97F4A7C15) & MASK
    code = ((code ^ (code >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    code = ((code ^ (code >> 27)) * 0x94D049BB133111EB) & MASK
    return code ^ (code >> 31)


def reference_hash(text: bytes) -> int:
    code = (len(text) * 0x9E3779B97F4A7C15) & MASK
    for start in range(0, len(text), 8):
        word = (int.from_bytes(text[start : start + 8], "little") * 0xC6A4A7935BD1E995) & MASK
        word ^= word >> 47
        word = (word * 0xC6A4A7935BD1E995) & MASK
        code = ((code ^ word) * 0xC6A4A7935BD1E995) & MASK
    return reference_mix(code)


def signed(code: int) -> int:
    return code - 2**64 if code >= 2**63 else code


def layout(texts: list[bytes], kind: pa.DataType | None = None) -> tuple[np.ndarray, np.ndarray]:
    array = pa.array(texts, kind or pa.binary())
    _, offsets, data = array.buffers()
    width = np.int64 if kind == pa.large_binary() else np.int32
    return np.frombuffer(offsets, width)[: len(texts) + 1], np.frombuffer(data or b"", np.uint8)


def hashes(texts: list[bytes]) -> list[int]:
    return hash_bytes(*layout(texts)).tolist()


def test_integers_hash_to_their_golden_values() -> None:
    # The first is the first output of splitmix64 with seed 0, 0xE220A8397B1DCDAF, as published.
    golden = {
        0: -2152535657050944081,
        1: -7995527694508729151,
        -1: -1956407806741107680,
        2**63 - 1: 3055647633038352039,
        -(2**63): 5196802822362493915,
    }
    assert hash_int64(np.array(list(golden))).tolist() == list(golden.values())


def test_byte_strings_hash_to_their_golden_values() -> None:
    golden = {
        b"": -2152535657050944081,
        b"a": 4589662769683623704,
        b"Freshet": 4328175935454879050,
        b"550e8400-e29b-41d4-a716-446655440000": -6443350433532772327,
    }
    assert hashes(list(golden)) == list(golden.values())


def test_pairs_hash_to_their_golden_value() -> None:
    assert combine(np.array([1, 2]), np.array([2, 1])).tolist() == [5936434225342320090, -7292456901892065787]


def test_integers_hash_as_in_plain_python() -> None:
    values = np.random.default_rng(1).integers(-(2**63), 2**63, 1000)
    assert hash_int64(values).tolist() == [signed(reference_mix(int(value) & MASK)) for value in values]


def test_byte_strings_hash_as_in_plain_python() -> None:
    assert hashes(TEXTS) == [signed(reference_hash(text)) for text in TEXTS]


def test_long_and_sliced_layouts_hash_alike() -> None:
    assert hash_bytes(*layout(TEXTS, pa.large_binary())).tolist() == hashes(TEXTS)
    offsets, data = layout(TEXTS)
    assert hash_bytes(offsets[3:], data).tolist() == hashes(TEXTS[3:])


def test_no_strings_hash_to_nothing() -> None:
    assert hashes([]) == []
    assert hash_bytes(np.zeros(0, np.int32), np.zeros(0, np.uint8)).size == 0


def test_offsets_outside_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 5, but there are 4 bytes"):
        hash_bytes(np.array([0, 5], np.int32), np.zeros(4, np.uint8))


def test_the_order_of_a_pair_counts() -> None:
    first, second = combine(np.array([1, 2]), np.array([2, 1]))
    assert first != second


def test_similar_keys_do_not_collide() -> None:
    texts = [f"customer#{number:09d}".encode() for number in range(200_000)]
    assert len(set(hashes(texts))) == len(texts)


@pytest.mark.parametrize("text", [b"key-7", b"0123456789abcdef"])
def test_flipping_one_bit_flips_about_half_of_the_code(text: bytes) -> None:
    flipped = []
    for bit in range(8 * len(text)):
        changed = bytearray(text)
        changed[bit // 8] ^= 1 << (bit % 8)
        flipped.append(bytes(changed))
    own = hashes([text])[0]
    distances = [((own ^ other) & MASK).bit_count() for other in hashes(flipped)]
    assert 28 < np.mean(distances) < 36
    assert min(distances) > 12
