"""The headers of a Parquet file's pages, which alone say how much each page is unpacked: the footer's sums may lie.

Headers are Thrift structs in its compact protocol (parquet.thrift, PageHeader). pyarrow reads them and shows none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

PLAIN, PLAIN_DICTIONARY, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 2, 7, 8
"""Some encodings: values as they are; numbers in a dictionary, by its former name; how much is as in the value before,
and the rest; numbers in a dictionary."""

_FIRST_READ, _LONGEST_HEADER = 1 << 10, 16 << 20  # a header may hold the page's least and largest value
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_TYPE, _UNPACKED, _PACKED, _OF_DATA, _OF_DICTIONARY, _OF_DATA_V2 = 1, 2, 3, 5, 7, 8  # fields of PageHeader
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 8


class Page(NamedTuple):
    """A page as its header tells.

    Attributes:
        content: where its bytes begin in the file.
        packed: how many they are.
        unpacked: how many they are once unpacked.
        values: of the column, nulls among them; of a dictionary, its entries.
        encoding: of the values.
        is_dictionary: whether it is the dictionary of the pages behind it.
    """

    content: int
    packed: int
    unpacked: int
    values: int
    encoding: int
    is_dictionary: bool


def pages(file: BinaryIO, first: int, last: int, values: int) -> Iterator[Page]:
    """The pages of a column chunk, up to the one with its last value. One small read a page.

    Args:
        file: the Parquet file.
        first: where the chunk begins.
        last: where it ends; no page begins behind.
        values: of the column in the chunk.

    Raises:
        ValueError: something there is no page's header, or one that can't be true.
    """
    position, seen = first, 0
    while position < last and seen < values:
        length, fields = _header(file, position)
        packed, unpacked = _count(fields, _PACKED), _count(fields, _UNPACKED)
        position += length
        kind = _count(fields, _TYPE)
        own = fields.get({_DATA: _OF_DATA, _DICTIONARY: _OF_DICTIONARY, _DATA_V2: _OF_DATA_V2}.get(kind, 0))
        if isinstance(own, dict):  # else a page of a kind that nobody reads
            count = _count(own, 1)
            encoding = own.get(4 if kind == _DATA_V2 else 2)
            if not isinstance(encoding, int):
                raise ValueError(f"the header of a page before byte {position} names no encoding")
            yield Page(position, packed, unpacked, count, encoding, kind == _DICTIONARY)
            seen += 0 if kind == _DICTIONARY else count
        position += packed


def _count(fields: dict[int, Any], number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int) or value < 0:
        raise ValueError("a page's header lacks one of its sizes, or one is negative")
    return value


def _header(file: BinaryIO, position: int) -> tuple[int, dict[int, Any]]:
    """How long the header at a position is, and its fields."""
    size = _FIRST_READ
    while True:
        file.seek(position)
        content = file.read(size)
        try:
            struct = _Struct(content)
            fields = struct.fields(_DEEPEST)
        except IndexError:
            if len(content) < size or size >= _LONGEST_HEADER:
                raise ValueError(f"no page's header is at byte {position}") from None
            size *= 16
        else:
            return struct.position, fields


class _Struct:
    """Reads a struct of Thrift's compact protocol; of lists, maps and texts nothing is kept.

    Args:
        content: begins with it.

    Attributes:
        position: where reading has come to.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def fields(self, depth: int) -> dict[int, Any]:
        """Its fields by number.

        Raises:
            IndexError: the content ends before the struct does.
            ValueError: it is no such struct.
        """
        if not depth:
            raise ValueError("a page's header is nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._number()
            found[number] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in {_TRUE, _FALSE}:
            return kind == _TRUE
        if kind in {_I16, _I32, _I64}:
            return self._number()
        if kind == _STRUCT:
            return self.fields(depth - 1)
        if kind in {_BYTE, _DOUBLE, _BINARY}:
            self._skip({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned())
        elif kind in {_LIST, _SET}:
            head = self._byte()
            self._items([head & 15], head >> 4 if head >> 4 < 15 else self._unsigned(), depth)
        elif kind == _MAP:
            count = self._unsigned()
            head = self._byte() if count else 0
            self._items([head >> 4, head & 15], count, depth)
        else:
            raise ValueError("a page's header holds a value of no type that there is")
        return None

    def _items(self, kinds: list[int], count: int, depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind in {_TRUE, _FALSE}:
                    self._skip(1)  # in a list the value is a byte of its own
                else:
                    self._value(kind, depth - 1)

    def _byte(self) -> int:
        byte = self._content[self.position]
        self.position += 1
        return byte

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _number(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, count: int) -> None:
        if count > len(self._content) - self.position:
            raise IndexError
        self.position += count
