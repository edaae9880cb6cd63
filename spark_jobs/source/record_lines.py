r"""Files of lines: where one can be cut, blocks of whole lines, and their records.

A record is a line, ended by \n or \r\n; a \r elsewhere is a character of the record. The last line of a file may lack
its end. A UTF-8 byte order mark at the beginning of a file is no part of its first line.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.source.files.regular_files import open_regular
from spark_jobs.source.records.decoded import BYTE_ORDER_MARK, KEPT_OF_TOO_LONG, LONGEST_RECORD, cut_record, told_length

BLOCK_BYTES = 4 << 20
_LINE_END, _CARRIAGE_RETURN = ord("\n"), ord("\r")
_BLANKS = b" \t\r"


class Block(NamedTuple):
    """Some whole lines.

    Attributes:
        content: bytes of the lines; the last one of a file may lack its end.
        position: where the first of them begins.
    """

    content: bytes
    position: int


def line_end_at_or_after(path: str | Path, offset: int) -> int:
    """The first place in a file, not before `offset`, where a line has ended: there the file can be cut.

    O(bytes to there). The file's beginning is such a place, and its end.
    """
    if offset <= 0:
        return 0
    with open_regular(path) as file:
        position = file.seek(offset - 1)
        while content := file.read(KEPT_OF_TOO_LONG):
            found = content.find(b"\n")
            if found >= 0:
                return position + found + 1
            position += len(content)
        return file.seek(0, os.SEEK_END)


def line_blocks(
    read: Callable[[int], bytes], position: int, block_bytes: int = BLOCK_BYTES, longest: int = LONGEST_RECORD
) -> Iterator[Block]:
    """Cut a stream of bytes into blocks of whole lines. O(bytes); in memory are a block and a record.

    A line of more than `longest` bytes is a block of its own; `cut_record` stands for it.

    Args:
        read: gives the next bytes, at most as many as asked for; none at the end.
        position: where the stream begins.
        block_bytes: how much is read at once; no more than `longest`.
        longest: bytes that a record may have.
    """
    block_bytes = min(block_bytes, longest)  # so only the first line of what is at hand can be too long
    carried = b""
    while content := read(block_bytes):
        if position == 0 and not carried and content.startswith(BYTE_ORDER_MARK):
            content, position = content[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
        first = content.find(b"\n")
        if len(carried) + (len(content) if first < 0 else first) > longest:
            beginning = (carried + content)[: min(longest, KEPT_OF_TOO_LONG)]
            line, length, content = _pass_over(read, beginning, carried + content, block_bytes)
            yield Block(line, position)
            position += length
            carried = b""
        end = content.rfind(b"\n") + 1
        if end:
            lines = carried + content[:end]
            yield Block(lines, position)
            position += len(lines)
            carried = content[end:]
        else:
            carried += content
    if carried:
        yield Block(carried, position)


def _pass_over(
    read: Callable[[int], bytes], beginning: bytes, content: bytes, block_bytes: int
) -> tuple[bytes, int, bytes]:
    """What stands for a line that is too long, the line's bytes with its end, and what was read after it."""
    digest, length = hashlib.sha256(), 0
    while content:
        end = content.find(b"\n")
        part = content if end < 0 else content[:end]
        digest.update(part)
        length += len(part)
        if end >= 0:
            return (
                cut_record(beginning, told_length(length, digest.hexdigest())) + b"\n",
                length + 1,
                content[end + 1 :],
            )
        content = read(block_bytes)
    return cut_record(beginning, told_length(length, digest.hexdigest())), length, b""


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
