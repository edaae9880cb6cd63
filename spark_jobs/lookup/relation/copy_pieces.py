"""Decodes the result of COPY ... TO STDOUT (FORMAT binary) while it comes in, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg2 import extensions, sql

from spark_jobs.columns.copy_decoding.column_types import ColumnType
from spark_jobs.columns.copy_decoding.decode import complete_tuples, decode_copy, tuples_start
from spark_jobs.columns.jit import read_only

PIECE_BYTES = 8 << 20
_TRAILER = b"\xff\xff"


def copy_pieces(
    cursor: extensions.cursor,
    query: sql.Composable,
    types: Sequence[ColumnType],
    take: Callable[[list[pa.Array]], Any],
    piece_bytes: int = PIECE_BYTES,
) -> None:
    """Read a query's whole result.

    Args:
        cursor: in a transaction.
        query: of c columns.
        types: their types.
        take: gets c arrays of some of the tuples after the others.
        piece_bytes: of a piece.

    Raises:
        SchemaMismatchError: the result is not of these columns.
    """
    pieces = _Pieces(types, take, piece_bytes)
    cursor.copy_expert(sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query), pieces)
    pieces.finish()


class _Pieces:
    """A file, for psycopg2: whole tuples of what is written into it are decoded and handed on."""

    def __init__(self, types: Sequence[ColumnType], take: Callable[[list[pa.Array]], Any], piece_bytes: int) -> None:
        self._types = types
        self._take = take
        self._piece_bytes = piece_bytes
        self._header = b""
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        self._waiting += data
        if len(self._waiting) >= self._piece_bytes:
            self._decode()
        return len(data)

    def finish(self) -> None:
        """Hand on what is left, with the stream's own trailer."""
        self._take(decode_copy(self._header + bytes(self._waiting), self._types))

    def _decode(self) -> None:
        if not self._header:
            start = tuples_start(np.frombuffer(self._waiting, np.uint8))
            self._header = bytes(self._waiting[:start])
            del self._waiting[:start]
        content = bytes(self._waiting)
        end = complete_tuples(read_only(np.frombuffer(content, np.uint8)))
        if end:
            self._take(decode_copy(self._header + content[:end] + _TRAILER, self._types))
            self._waiting = bytearray(content[end:])
