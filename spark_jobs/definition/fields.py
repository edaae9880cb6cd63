"""The kinds of values that a pipeline's YAML file is made of: words, tables, durations, sizes, rates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from spark_jobs.byte_sizes import parse_bytes
from spark_jobs.definition.problems import shown
from spark_jobs.durations import parse_duration

# 100 years: Python and PostgreSQL can both still tell a time that far away.
_LONGEST = "36525d"
_FOR_EVER = "; or null, for ever"
# Less is no page of R and a stream tuple for each task. More than that, no machine has.
_LEAST_MEMORY, _MOST_MEMORY = "64KB", "16TB"
_HIGHEST_RATE = _HIGHEST_COUNT = 1_000_000_000


class Part(BaseModel):
    """A part of a definition: frozen, and an unknown key is an error.

    Attributes:
        hints: what is told of a key that it has not: another part has it, or it had it once.
    """

    hints: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _table(text: str) -> str:
    if not re.fullmatch(r"[^.\0]+\.[^.\0]+", text):
        raise ValueError(f"{shown(text)} is not a table. Write schema.table, for example master.customer.")
    return text


def _parsed(
    parse: Callable[[str], Any], plain: type, most: str, least: str | None = None, otherwise: str = ""
) -> BeforeValidator:
    """Validator of a quantity that is written as text with a unit, or is one already.

    Args:
        parse: reads the text.
        plain: type of the quantity.
        most, least: what it may be, as text with a unit; without `least` anything that is more than nothing.
        otherwise: what else is allowed, for the message.
    """
    highest, lowest = parse(most), plain(0) if least is None else parse(least)
    allowed = f"{f'{least} to' if least else 'up to'} {most}{otherwise}"

    def validate(value: Any) -> Any:
        given = parse(value) if isinstance(value, str) else value
        if not isinstance(given, plain) or isinstance(given, bool):
            raise ValueError(f"{shown(value)} has no unit; write a number and a unit.")
        if given <= plain(0):
            raise ValueError(f"{shown(value)} must be more than 0.")
        if not lowest <= given <= highest:
            raise ValueError(f"{shown(value)} is not allowed. Allowed: {allowed}.")
        return given

    return BeforeValidator(validate)


def _option_text(value: Any) -> Any:
    """YAML's true and 1 as Spark's reader options want them."""
    return str(value).lower() if isinstance(value, bool | int) else value


def _duration_text(value: timedelta) -> str:
    return f"{value / timedelta(milliseconds=1):.3f}".rstrip("0").rstrip(".") + "ms"


def _rate(value: Any) -> Any:
    """A number per second, written `5000/s`, or a number already."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*s\s*", value) if isinstance(value, str) else None
    number = float(found[1]) if found else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{shown(value)} is not a rate. Write a number per second, for example 5000/s.")
    if not 0 < number <= _HIGHEST_RATE:
        allowed = f"more than 0, up to {_HIGHEST_RATE}/s; or leave the key out, for no limit"
        raise ValueError(f"{shown(value)} is not allowed. Allowed: {allowed}.")
    return float(number)


def _count(value: Any) -> Any:
    """A number of things; YAML's true is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _HIGHEST_COUNT:
        raise ValueError(f"{shown(value)} is not allowed. Allowed: a whole number, 1 to {_HIGHEST_COUNT}.")
    return value


def _share(value: Any) -> Any:
    """A part of a whole; YAML's true is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError(f"{shown(value)} is not a share. Allowed: a number above 0, up to 1, for example 0.99.")
    return value


def finite(value: Any) -> Any:
    """A value as it is; refused if it is a number that JSON, which stored definitions are written in, has not.

    Raises:
        ValueError: it is infinite, or not a number.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{shown(value)} is not allowed. Allowed: finite numbers; write one, or leave the value out.")
    return value


# What editors are told of values that are written with a unit.
_DURATION = WithJsonSchema({"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$"})
_BYTES = WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]?([iI]?[bB])?)\s*$"})
_RATE = WithJsonSchema({"type": ["string", "number"], "pattern": r"^\s*\d+(\.\d+)?\s*/\s*s\s*$"})

Word = Annotated[str, Field(min_length=1)]
Duration = Annotated[
    timedelta, _parsed(parse_duration, timedelta, _LONGEST), PlainSerializer(_duration_text), _DURATION
]
Kept = Annotated[
    timedelta,
    _parsed(parse_duration, timedelta, _LONGEST, otherwise=_FOR_EVER),
    PlainSerializer(_duration_text),
    _DURATION,
]
# Freshness over the last day, on the page and in its charts, is read from the ledger's sums.
LedgerKept = Annotated[
    timedelta, _parsed(parse_duration, timedelta, _LONGEST, "1d", _FOR_EVER), PlainSerializer(_duration_text), _DURATION
]
Rate = Annotated[float, BeforeValidator(_rate), _RATE]
Count = Annotated[int, BeforeValidator(_count), Field(json_schema_extra={"minimum": 1, "maximum": _HIGHEST_COUNT})]
Share = Annotated[float, BeforeValidator(_share), Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": 1})]
Bytes = Annotated[int, _parsed(parse_bytes, int, _MOST_MEMORY, _LEAST_MEMORY), _BYTES]
TableName = Annotated[str, AfterValidator(_table), Field(json_schema_extra={"pattern": r"^[^.]+\.[^.]+$"})]
OptionText = Annotated[str, BeforeValidator(_option_text), WithJsonSchema({"type": ["string", "boolean", "integer"]})]


def connection_id(text: str) -> str:
    """The id of an Airflow connection, which is part of a variable's name in the environment."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", text):
        raise ValueError(f"{shown(text)} is not the id of a connection. Allowed: letters, digits, '_', '-' and '.'.")
    return text
