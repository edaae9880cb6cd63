"""Reads the Spark DDL of a source's schema without Spark: which columns there are, and of which type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from spark_jobs.errors import PipelineDefinitionError

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_DECIMAL_PRECISION = 38
_PLAIN_DECIMAL = (10, 0)  # what Spark takes `decimal` without brackets for

_SYNONYMS = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "varchar": "string",
    "char": "string",
    "timestamp_ltz": "timestamp",
}
TYPE_NAMES = (
    "bigint", "int", "smallint", "tinyint", "float", "double", "decimal(p,s)", "boolean", "string", "varchar(n)",
    "date", "timestamp", "binary",
)  # fmt: skip
_PLAIN = frozenset(name for name in TYPE_NAMES if "(" not in name)
_KNOWN_WORDS = (*sorted(_PLAIN), "decimal", *_SYNONYMS)
_NESTED = frozenset({"array", "map", "struct", "variant", "interval"})

_COLUMN = re.compile(
    r"""\s*(?:`(?P<quoted>[^`]+)`|(?P<bare>[a-z_]\w*)\s)\s*  # name
        (?P<type>[a-z_]\w*)                                # type
        (?:\s*\((?P<arguments>[^)]*)\))?                    # precision and scale, or length
        (?:\s+comment\s+(?:'[^']*'|"[^"]*"))?\s*""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class StreamType:
    """Type of a stream column.

    Attributes:
        name: Spark's name for it, without synonyms: bigint, int, smallint, tinyint, float, double,
            decimal, boolean, string, date, timestamp or binary.
        precision: digits of a decimal; 0 for all other types.
        scale: digits of a decimal after the point; 0 for all other types.
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    def arrow(self) -> pa.DataType:
        """The arrow type in which Spark hands values of this type to Python."""
        import pyarrow as pa

        if self.name == "decimal":
            return pa.decimal128(self.precision, self.scale)
        return {
            "bigint": pa.int64(),
            "int": pa.int32(),
            "smallint": pa.int16(),
            "tinyint": pa.int8(),
            "float": pa.float32(),
            "double": pa.float64(),
            "boolean": pa.bool_(),
            "string": pa.string(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", tz="UTC"),
            "binary": pa.binary(),
        }[self.name]


def parse_columns(text: str) -> dict[str, StreamType]:
    """Read a Spark DDL such as `id bigint, price decimal(15,2)`; columns in their order.

    Raises:
        PipelineDefinitionError: the text is not such DDL; all problems at once.
    """
    if not text.strip():
        raise PipelineDefinitionError("it names no column; write `name type, name type`.")
    columns: dict[str, StreamType] = {}
    problems = []
    for part in _split(text):
        try:
            name, kind = _parse_column(part)
            # Spark tells columns apart without regard to case.
            if name.lower() in {other.lower() for other in columns}:
                raise ValueError(f"column {name!r} appears twice (Spark ignores case); rename or remove one.")
            columns[name] = kind
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise PipelineDefinitionError("\n".join([*problems, f"Column types: {', '.join(TYPE_NAMES)}."]))
    return columns


def _split(text: str) -> list[str]:
    """Cut at the commas between columns, not at those in brackets, quotes or back quotes."""
    parts, start, depth, quote = [], 0, 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _parse_column(text: str) -> tuple[str, StreamType]:
    if not text.strip():
        raise ValueError("a column is missing between two commas, or at an end; write `name type, name type`.")
    match = _COLUMN.match(text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a column; write `name type`, for example `o_orderkey bigint`.")
    name, word, rest = match["quoted"] or match["bare"], match["type"].lower(), text[match.end() :].strip()
    if word in _NESTED or rest.startswith("<"):
        raise ValueError(
            f"column {name!r} has the nested type {word!r}, but facts are flat. "
            "Declare it as string to carry it as JSON text, or leave it out."
        )
    if rest.lower().startswith("not null"):
        raise ValueError(
            f"column {name!r}: Spark's readers do not keep NOT NULL; leave it out here, and say NOT NULL in the "
            "fact table: tuples without a value are rejected there."
        )
    if rest:
        raise ValueError(f"column {name!r}: {rest!r} is not understood after its type; write `name type`.")
    return name, _parse_type(name, word, match["arguments"])


def _parse_type(column: str, word: str, arguments: str | None) -> StreamType:
    if word == "timestamp_ntz":
        raise ValueError(f"column {column!r}: timestamp_ntz names no instant; use timestamp (read as UTC).")
    kind = _SYNONYMS.get(word, word)
    if kind not in _PLAIN and kind != "decimal":
        nearest = get_close_matches(word, _KNOWN_WORDS, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(f"column {column!r} has the unknown type {word!r}.{hint}")
    numbers = [] if arguments is None else [part.strip() for part in arguments.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise ValueError(f"column {column!r}: ({arguments}) is not understood; write whole numbers.")
    if kind == "decimal":
        return _decimal(column, [int(number) for number in numbers])
    if word in {"varchar", "char"}:
        if len(numbers) != 1 or int(numbers[0]) < 1:
            raise ValueError(f"column {column!r}: {word} needs a length, as in {word}(10); or use string.")
    elif numbers:
        raise ValueError(f"column {column!r}: {word} takes no ({arguments}).")
    return StreamType(kind)


def _decimal(column: str, numbers: list[int]) -> StreamType:
    precision, scale = [*numbers, *_PLAIN_DECIMAL[len(numbers) :]] if len(numbers) <= 2 else (0, 0)
    if not 1 <= precision <= _MAX_DECIMAL_PRECISION or scale > precision:
        written = f"decimal({', '.join(map(str, numbers))})"
        allowed = f"decimal(p,s) with 1 <= p <= {_MAX_DECIMAL_PRECISION} and 0 <= s <= p"
        raise ValueError(f"column {column!r}: {written} is not a decimal; write {allowed}.")
    return StreamType("decimal", precision, scale)
