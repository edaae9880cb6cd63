"""4-wise independent hash functions of integers: polynomials of degree three modulo the prime 2^61 - 1.

Sketches are stored and added across tasks, hosts and versions, so what a seed gives may never change: the golden
values in the tests are frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]
Hashes = NDArray[np.uint64]

PRIME = 2**61 - 1

_PRIME = np.uint64(PRIME)
_BITS = np.uint64(61)
_LOW_BITS = np.uint64(31)
_LOW = np.uint64(2**31 - 1)
_HALF_BITS = np.uint64(30)
_HALF = np.uint64(2**30 - 1)
_TWO = np.uint64(2)
_WORD_BITS = np.uint64(32)
_WORD = np.uint64(2**32 - 1)
_DEGREE = 3
# Hash values that are worked on at once: they stay in the second-level cache.
_BLOCK_HASHES = 32_768


class PolynomialHashes:
    """Hash functions that are independent of each other, each of them 4-wise independent.

    Any four different values get hash values that are independent and uniform in [0, 2^61 - 1), so that any of their
    bits may serve as signs and others as buckets (Wegman, Carter: New Hash Functions and Their Use in Authentication
    and Set Equality, 1981). A value of 64 bits is first brought to 61 by a linear function of its halves, the same one
    for all functions: two values become one with probability 2^-61.

    Polynomials rather than tabulation (Thorup, Zhang, SODA 2004): 2 ns a value and function, measured, where its 15
    look-ups for 64 bits take 6, and a function is four numbers instead of 50 kB of tables.

    Args:
        seed: of all functions; equal seeds and numbers are equal functions.
        numbers: which functions; that of a number does not depend on what others there are.
    """

    def __init__(self, seed: int, numbers: Sequence[int]) -> None:
        self._coefficients = _drawn(seed, [4 * number + place for number in numbers for place in range(4)])
        self._coefficients = self._coefficients.reshape(-1, _DEGREE + 1)
        self._folding = _drawn(seed, [-1, -2, -3])

    def of(self, values: Int64Array) -> Hashes:
        """Hash values, uint64, shape (functions, n), each below 2^61 - 1. O(functions n)."""
        return _hashes(self._coefficients, self._folding, read_only(values))

    def in_blocks(self, values: Int64Array) -> Iterator[tuple[slice, Hashes]]:
        """The same for some values after the others, as they fit into the processor's cache."""
        block = max(1, _BLOCK_HASHES // len(self._coefficients))
        for start in range(0, len(values), block):
            part = slice(start, start + block)
            yield part, self.of(values[part])


def _drawn(seed: int, numbers: Sequence[int]) -> Hashes:
    """A coefficient for each number, from splitmix64's finaliser."""
    codes = hash_int64(hash_int64(np.array([seed], np.int64)) ^ hash_int64(np.array(numbers, np.int64)))
    drawn: Hashes = (hash_int64(codes).view(np.uint64) >> np.uint64(3)) % _PRIME
    return drawn


@kernel_part
def _fold(value: Any) -> Any:
    """The same value modulo the prime, at most seven above it."""
    return (value & _PRIME) + (value >> _BITS)


@kernel_part
def _times_plus(a: Any, b: Any, c: Any) -> Any:
    """A product and a sum modulo the prime, folded once; a may be up to 2^62, b and c below 2^61 + 8.

    The halves have 31 bits, so that the compiler finds a multiplication of four or eight lanes; 2^62 counts as 2.
    """
    a_high, a_low = a >> _LOW_BITS, a & _LOW
    b_high, b_low = b >> _LOW_BITS, b & _LOW
    middle = a_high * b_low + a_low * b_high
    return _fold(_TWO * a_high * b_high + (middle >> _HALF_BITS) + ((middle & _HALF) << _LOW_BITS) + a_low * b_low + c)


@kernel
def _hashes(coefficients: Hashes, folding: Hashes, values: Int64Array) -> Hashes:
    hashes = np.empty((len(coefficients), len(values)), np.uint64)
    folded = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        value = np.uint64(values[i])
        folded[i] = _times_plus(folding[0], value >> _WORD_BITS, _times_plus(folding[1], value & _WORD, folding[2]))
    for function in range(len(coefficients)):
        constant, first, second, third = (
            coefficients[function, 0],
            coefficients[function, 1],
            coefficients[function, 2],
            coefficients[function, 3],
        )
        for i in range(len(values)):
            x = folded[i]
            code = _fold(_times_plus(_times_plus(_times_plus(third, x, second), x, first), x, constant))
            hashes[function, i] = code - _PRIME if code >= _PRIME else code
    return hashes
