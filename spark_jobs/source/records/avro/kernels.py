"""The machine that reads Avro records, column by column, as a program says: see `programs`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part

END, NULL, BOOLEAN, NUMBER, FLOAT, DOUBLE, BYTES, FIXED, UNION, JUMP, BLOCKS, AGAIN = range(12)
"""Instructions. Each takes three numbers of the program: itself, an operand, and the column that it fills (-1: none).

NUMBER reads int, long and enum, BYTES also strings; FIXED's operand is the size. UNION's is the number of branches,
whose addresses follow. JUMP's is an address. BLOCKS begins the items of an array or map, of which none are kept, and
its operand is the address behind them; AGAIN ends an item, and its operand is the address of BLOCKS.
"""

SOUND, CUT, NO_NUMBER, NO_BRANCH, LEFT_OVER, NO_BOOLEAN, NO_LENGTH, TOO_DEEP, NO_VALUE, TOO_MANY = range(10)
"""What may be wrong with a record."""

_DEPTH = 64
# Items of nothing, as nulls are, take no bytes: more of them than bytes would cost time without end.
_ITEMS_OF_NOTHING = 1 << 10


@kernel_part
def _number(data: NDArray[np.uint8], position: Any, end: Any) -> tuple[Any, Any]:
    """The zigzag number at a position, and where it ends; negative: there is none."""
    value, shift = np.uint64(0), np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = np.uint64(data[position])
        position += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@kernel
def read_records(  # noqa: PLR0912, PLR0915 (a machine is one loop: calls would cost more than most instructions)
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    program: NDArray[np.int32],
    values: NDArray[np.int64],
    lengths: NDArray[np.int64],
    valid: NDArray[np.bool_],
    states: NDArray[np.int8],
) -> None:
    """Run a program over records. O(bytes).

    Args:
        data: bytes in which the records lie.
        starts: where each record starts, shape (n,).
        ends: where each ends, shape (n,).
        program: the instructions.
        values: shape (columns, n): numbers, the bits of floats, or where bytes start. Written.
        lengths: shape (columns, n): of bytes. Written.
        valid: shape (columns, n), all false: where there is a value. Written.
        states: shape (n,): what is wrong with each record. Written.
    """
    items = np.empty(_DEPTH, np.int64)
    for record in range(len(starts)):
        position, end = starts[record], ends[record]
        at, depth, state = 0, 0, SOUND
        items_left = end - position + _ITEMS_OF_NOTHING
        while True:
            operation, operand, column = program[at], program[at + 1], program[at + 2]
            at += 3
            value: Any = np.int64(0)
            length: Any = np.int64(0)
            if operation == END:
                if position != end:
                    state = LEFT_OVER
                break
            if operation == NULL:
                continue
            if operation == JUMP:
                at = operand
                continue
            if operation == AGAIN:
                items[depth - 1] -= 1
                if items[depth - 1] == 0:
                    depth -= 1
                    at = operand
                else:
                    at = operand + 3
                continue
            if operation in (NUMBER, BYTES, UNION, BLOCKS):
                value, position = _number(data, position, end)
                if position < 0:
                    state = NO_NUMBER
                    break
            if operation == UNION:
                if value < 0 or value >= operand:
                    state = NO_BRANCH
                    break
                at = program[at + value]
                continue
            if operation == BLOCKS:
                if value == 0:
                    at = operand
                    continue
                if value < 0:  # the size of the block follows
                    value = -value
                    _, position = _number(data, position, end)
                if position < 0 or value < 0:
                    state = NO_NUMBER
                    break
                if value > items_left:
                    state = TOO_MANY
                    break
                items_left -= value
                if depth == _DEPTH:
                    state = TOO_DEEP
                    break
                items[depth] = value
                depth += 1
                continue
            if operation == BOOLEAN:
                length = 1
            elif operation == FLOAT:
                length = 4
            elif operation == DOUBLE:
                length = 8
            elif operation == FIXED:
                length = operand
            elif operation == BYTES:
                length = value
                if length < 0:
                    state = NO_LENGTH
                    break
            if length > end - position:
                state = CUT
                break
            if operation == BOOLEAN:
                value = np.int64(data[position])
                if value > 1:
                    state = NO_BOOLEAN
                    break
            elif operation in (FLOAT, DOUBLE):
                bits = np.uint64(0)
                for byte in range(length):
                    bits |= np.uint64(data[position + byte]) << np.uint64(8 * byte)
                value = np.int64(bits)
            elif operation in (BYTES, FIXED):
                value = position
            position += length
            if column >= 0:
                values[column, record] = value
                lengths[column, record] = length
                valid[column, record] = True
        states[record] = state


@kernel
def gather_bytes(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int32],
    gathered: NDArray[np.uint8],
) -> None:
    """Copy pieces one behind the other.

    Args:
        data: bytes in which the pieces lie.
        starts: where each starts, shape (n,).
        offsets: where each comes to lie, shape (n + 1,).
        gathered: shape (offsets[n],). Written.
    """
    for piece in range(len(starts)):
        shift = starts[piece] - offsets[piece]
        for target in range(offsets[piece], offsets[piece + 1]):
            gathered[target] = data[target + shift]


@kernel
def big_endian_words(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    words: NDArray[np.uint64],
    fits: NDArray[np.bool_],
) -> None:
    """Read whole numbers in two's complement, highest byte first, as arrow's decimals have them.

    Args:
        data: bytes in which they lie.
        starts: where each starts, shape (n,).
        lengths: bytes of each, shape (n,).
        words: shape (n, 2): low and high word. Written.
        fits: shape (n,): whether 16 bytes hold it. Written.
    """
    for number in range(len(starts)):
        first, length = starts[number], lengths[number]
        sign = np.uint64(0)
        if length > 0 and data[first] >= 128:
            sign = ~np.uint64(0)
        fits[number] = True
        while length > 16:
            if np.uint64(data[first]) != sign & np.uint64(255):
                fits[number] = False
            first += 1
            length -= 1
        if length == 16 and lengths[number] > 16 and (data[first] >= 128) != (sign != 0):
            fits[number] = False
        low, high = sign, sign
        for byte in range(length):
            high = (high << np.uint64(8)) | (low >> np.uint64(56))
            low = (low << np.uint64(8)) | np.uint64(data[first + byte])
        words[number, 0] = low
        words[number, 1] = high
