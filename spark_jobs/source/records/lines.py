r"""Blocks of bytes cut into records, a line each, ended by \n or \r\n."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_LINE_END, _CARRIAGE_RETURN = ord("\n"), ord("\r")
_BLANKS = b" \t\r"


class Lines(NamedTuple):
    """The records of a block.

    Attributes:
        records: binary array, shape (n,), without line ends; blank lines are none.
        positions: int64, shape (n,): where each begins.
    """

    records: pa.Array
    positions: NDArray[np.int64]


def cut_lines(block: bytes, position: int) -> Lines:
    r"""Cut a block. O(bytes), one copy.

    Args:
        block: whole lines; at the end of a file the last one may lack its end.
        position: where the block begins.
    """
    whole = block if block.endswith(b"\n") or not block else block + b"\n"
    data = np.frombuffer(whole, np.uint8)
    after = np.flatnonzero(data == _LINE_END) + 1
    offsets = np.concatenate([np.zeros(1, np.int64), after]).astype(np.int32)
    lines = pa.Array.from_buffers(pa.binary(), len(after), [None, pa.py_buffer(offsets), pa.py_buffer(whole)])
    starts, lengths = offsets[:-1], np.diff(offsets)
    returned = (lengths > 1) & (data[after - 2] == _CARRIAGE_RETURN)  # an index before the first wraps, and counts not
    if returned.all():
        records = pc.binary_slice(lines, 0, -2)
    else:
        records = pc.binary_slice(lines, 0, -1)
        if returned.any():
            records = pc.if_else(pa.array(returned), pc.binary_slice(lines, 0, -2), records)
    positions = starts.astype(np.int64) + position
    blank = _blank(records, data[starts], lengths)
    if blank.any():
        return Lines(records.filter(pa.array(~blank)), positions[~blank])
    return Lines(records, positions)


def _blank(records: pa.Array, firsts: NDArray[np.uint8], lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
    blank = lengths == 1
    may_be = np.flatnonzero(np.isin(firsts, np.frombuffer(_BLANKS, np.uint8)))
    for number, record in zip(may_be, records.take(pa.array(may_be)).to_pylist(), strict=True):
        blank[number] = not record.strip(_BLANKS)
    return blank
