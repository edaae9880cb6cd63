"""JSON records, whole blocks at a time: arrow reads the plain ones, and only the others are read one by one.

Arrow is more lenient than the contract in places: it takes several objects on a line and one on several, NaN and
Infinity, invalid UTF-8 in what it passes over, any depth of nesting. Records in which one of these may be are kept
from it; for all others, what it accepts is what `json_members` accepts, with the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.decoded import Decoded, all_sound, arrow_schema, as_lines, holding, merged, not_utf8
from spark_jobs.source.records.json_members import MOST_LEVELS, decode_each
from spark_jobs.source.records.texts import DECIMAL_CHARACTERS, from_texts, may_overflow

Bools = NDArray[np.bool_]
Columns = Mapping[str, StreamType]

# Arrow's calls cost as much as some dozens of records read one by one.
_FEW = 64
# Where a record holds one of these, arrow may see the end of the line, or of all lines.
_LINE_BREAKING = (b"\0", b"\n", b"\r")
# Arrow takes them for numbers.
_NO_NUMBERS = (b"NaN", b"Inf")
# Behind a backslash, what digits, signs, the point and e may be escaped with.
_ESCAPED_NUMBER = (list(b"u"), list(b"0"), list(b"0"), list(b"2346"))
_MINUS, _SMALL_E, _BACKSLASH = b"-e\\"
_IN_NUMBERS = np.isin(np.arange(256), list(b"0123456789."))
_SIGNS = np.isin(np.arange(256), list(b"+-"))
_IN_WORDS = np.array([character < 128 and chr(character).isalnum() for character in range(256)])
_LOOKED_AT = DECIMAL_CHARACTERS + 3
_OPENING_BRACE, _CLOSING_BRACE, _LOWER_CASE = ord("{"), ord("}"), 0x20

_READ_AS_TEXT = frozenset({"date", "timestamp", "binary"})
_KINDS: dict[str, Any] = {
    "bigint": int | None, "int": int | None, "smallint": int | None, "tinyint": int | None, "float": float | None,
    "double": float | None, "boolean": bool | None, "string": str | None, "date": str | None, "timestamp": str | None,
    "binary": str | None,
}  # fmt: skip


def decode_json(records: pa.Array, columns: Columns) -> Decoded:
    """The tuples of JSON records; one or two microseconds each.

    Args:
        records: binary array without nulls, shape (n,): an object each.
        columns: the source's schema.
    """
    odd = _odd(records)
    if any(kind.name == "decimal" for kind in columns.values()):
        odd |= _far_below_zero(records)
    wide = [kind.scale for kind in columns.values() if may_overflow(kind)]
    if wide:
        odd |= _far_beyond(records, max(wide))
    if odd.any():
        return _apart(records, odd, columns, _decode_known)
    return _decode_known(records, columns)


def _decode_known(records: pa.Array, columns: Columns) -> Decoded:
    """Read records that have no fields but the columns: in these arrow takes no value that has to be looked for."""
    try:
        return _converted(records, _read_block(records, columns, "error"), columns)
    except pa.ArrowInvalid:
        passed_over = _leniently_passed_over(records)
        if passed_over.any():
            return _apart(records, passed_over, columns, _decode_plain)
        return _decode_plain(records, columns)


def _decode_plain(records: pa.Array, columns: Columns) -> Decoded:
    """Read records with any fields; if one of them is malformed, without those that seem to be."""
    try:
        return _converted(records, _read_block(records, columns, "ignore"), columns)
    except pa.ArrowInvalid:
        return _apart(records, _misfits(records, columns), columns, _decode_sifted)


def _decode_sifted(records: pa.Array, columns: Columns) -> Decoded:
    """Read records of which only few can still be malformed: by halves, until those are alone."""
    try:
        return _converted(records, _read_block(records, columns, "ignore"), columns)
    except pa.ArrowInvalid:
        if len(records) <= _FEW:
            return decode_each(records, columns)
        numbers, half = np.arange(len(records)), len(records) // 2
        halves = [slice(0, half), slice(half, None)]
        return merged([(numbers[part], _decode_sifted(records[part], columns)) for part in halves])


def _apart(
    records: pa.Array, odd: Bools, columns: Columns, decode_others: Callable[[pa.Array, Columns], Decoded]
) -> Decoded:
    """Read those records one by one, and the others as a block."""
    others = decode_others(records.filter(pa.array(~odd)), columns)
    each = decode_each(records.filter(pa.array(odd)), columns)
    return merged([(np.flatnonzero(~odd), others), (np.flatnonzero(odd), each)])


def _converted(records: pa.Array, table: pa.Table, columns: Columns) -> Decoded:
    """The columns that arrow has left as texts, converted; records in which one is no value are read one by one."""
    faults = np.zeros(len(records), np.bool_)
    values = []
    for kind, column in zip(columns.values(), table.columns, strict=True):
        plain = column.combine_chunks()
        if kind.name in _READ_AS_TEXT:
            converted = from_texts(plain, kind)
            plain = converted.values
            if converted.faults is not None:
                faults |= converted.faults
        elif kind.name in {"float", "double"}:  # NaN, which JSON has not, and numbers too large for the type
            faults |= ~pc.fill_null(pc.is_finite(plain), True).to_numpy(zero_copy_only=False)
        values.append(plain)
    decoded = all_sound(pa.Table.from_arrays(values, schema=arrow_schema(columns)))
    if not faults.any():
        return decoded
    sound, numbers = pa.array(~faults), np.arange(len(records))
    kept = Decoded(decoded.tuples.filter(sound), decoded.reasons.filter(sound))
    return merged([(numbers[~faults], kept), (numbers[faults], decode_each(records.filter(pa.array(faults)), columns))])


def _read_block(records: pa.Array, columns: Columns, unknown_fields: Literal["ignore", "error"]) -> pa.Table:
    """What arrow reads in records, one tuple each.

    Raises:
        pa.ArrowInvalid: a record is malformed, or holds a value that arrow does not take.
    """
    schema = pa.schema(
        [(name, pa.string() if kind.name in _READ_AS_TEXT else kind.arrow()) for name, kind in columns.items()]
    )
    if not len(records):
        return schema.empty_table()
    block = as_lines(records)
    table = pj.read_json(
        pa.BufferReader(block),
        read_options=pj.ReadOptions(use_threads=False, block_size=block.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown_fields),
    )
    if table.num_rows != len(records):
        raise pa.ArrowInvalid("a record holds not one object")
    table.validate(full=True)  # decimals beyond their precision, which arrow does not look at
    return table


def _odd(records: pa.Array) -> Bools:
    """Records that may not be one object on a line of UTF-8, though arrow would take them for such."""
    offsets, data = binary_parts(records)
    odd = offsets[:-1] == offsets[1:]
    if odd.all():
        return odd
    firsts, lasts = (data[np.where(odd, offsets[0], positions)] for positions in (offsets[:-1], offsets[1:] - 1))
    odd |= (firsts != _OPENING_BRACE) | (lasts != _CLOSING_BRACE)
    content = data[offsets[0] : offsets[-1]].tobytes()
    for character in _LINE_BREAKING:
        if character in content:
            odd |= holding(records, character)
    invalid = None if content.isascii() else not_utf8(records)
    return odd if invalid is None else odd | invalid


def _far_below_zero(records: pa.Array) -> Bools:
    """Records in which a number, or a text, may have an exponent that arrow's decimals must not see: see `texts`."""
    odd = np.zeros(len(records), np.bool_)
    offsets, data = binary_parts(records)
    # Before and behind each place there is then as much as is looked at.
    text = np.pad(data[offsets[0] : offsets[-1]], _LOOKED_AT)
    exponents = np.flatnonzero(text == _MINUS) - 1
    exponents = exponents[(text[exponents] | _LOWER_CASE) == _SMALL_E]
    exponents = exponents[_IN_NUMBERS[text[exponents - 1]] & _IN_NUMBERS[text[exponents + 2]]]
    starts = exponents - 1
    for _ in range(DECIMAL_CHARACTERS):
        starts = starts - _IN_NUMBERS[text[starts]]
    digits = exponents - 1 - starts
    starts -= _SIGNS[text[starts]]
    numbers = ~_IN_WORDS[text[starts]]  # an id may have a group of digits with an e behind
    found = [
        exponent
        for exponent, count in zip(exponents[numbers].tolist(), digits[numbers].tolist(), strict=True)
        if _is_beyond(text[exponent + 2 : exponent + 3 + DECIMAL_CHARACTERS].tobytes(), DECIMAL_CHARACTERS - count)
    ]
    escapes = np.flatnonzero(text == _BACKSLASH)
    for number, characters in enumerate(_ESCAPED_NUMBER, 1):
        escapes = escapes[np.isin(text[escapes + number], characters)]
    places = np.array([*found, *escapes.tolist()], np.int64) - (_LOOKED_AT) + offsets[0]
    odd[np.searchsorted(offsets, places, "right") - 1] = True
    return odd


def _far_beyond(records: pa.Array, scale: int) -> Bools:
    """Records in which a number, or a text, may be so large that arrow's decimals of this scale overflow.

    That takes more digits before the point than there are left, or an exponent.
    """
    many_digits = f"[1-9][0-9]{{{DECIMAL_CHARACTERS - scale},}}"
    exponent = r"[^0-9A-Za-z_.][+-]?[0-9.]+[eE]\+?0*[1-9]"
    return pc.match_substring_regex(records, f"{many_digits}|{exponent}").to_numpy(zero_copy_only=False)


def _is_beyond(text: bytes, most: int) -> bool:
    """Whether a text begins with an exponent that is greater, or longer than the text."""
    behind = text.lstrip(b"0123456789")
    if behind and (_IN_WORDS[behind[0]] or behind[0] == _MINUS):
        return False
    return not behind or int(text[: len(text) - len(behind)]) > most


def _leniently_passed_over(records: pa.Array) -> Bools:
    """Records in which arrow may pass over what is no JSON, or is nested too deeply, in fields that are no columns."""
    offsets, data = binary_parts(records)
    text = data[offsets[0] : offsets[-1]]
    odd = np.zeros(len(records), np.bool_)
    for word in _NO_NUMBERS:
        first = np.flatnonzero(text[:-1] == word[0])
        if (text[first + 1] == word[1]).any():
            odd |= holding(records, word)
    brackets = np.flatnonzero((text | _LOWER_CASE) == _OPENING_BRACE)  # [ is the other one
    # Each record has one at least.
    if len(brackets) - (len(records) - 1) > MOST_LEVELS:
        record = np.searchsorted(offsets, brackets + offsets[0], "right") - 1
        odd[record[MOST_LEVELS:][record[MOST_LEVELS:] == record[:-MOST_LEVELS]]] = True
    return odd


def _misfits(records: pa.Array, columns: Columns) -> Bools:
    """Records that arrow will most likely not take, found faster than by reading them one by one."""
    fields = [
        (f"c{number}", _KINDS.get(kind.name, msgspec.Raw), msgspec.field(default=None, name=name))
        for number, (name, kind) in enumerate(columns.items())
    ]
    decode = msgspec.json.Decoder(msgspec.defstruct("Record", fields)).decode
    misfit = np.zeros(len(records), np.bool_)
    for number, record in enumerate(records.to_pylist()):
        try:
            decode(record)
        except msgspec.MsgspecError:
            misfit[number] = True
    return misfit
