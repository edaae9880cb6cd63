"""The kinds of values that a pipeline's YAML file is made of: words, tables, durations, sizes, rates."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from spark_jobs.byte_sizes import parse_bytes
from spark_jobs.durations import parse_duration
from spark_jobs.pipeline.definition.problems import shown


class Part(BaseModel):
    """A part of a definition: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _table(text: str) -> str:
    if not re.fullmatch(r"[^.\0]+\.[^.\0]+", text):
        raise ValueError(f"{shown(text)} is not a table. Write schema.table, for example master.customer.")
    return text


def _parsed(parse: Callable[[str], Any], plain: type) -> Callable[[Any], Any]:
    """Validator of a quantity that is written as text with a unit, or is one already."""

    def validate(value: Any) -> Any:
        given = parse(value) if isinstance(value, str) else value
        if not isinstance(given, plain) or isinstance(given, bool):
            raise ValueError(f"{shown(value)} has no unit; write a number and a unit.")
        if given <= plain(0):
            raise ValueError(f"{shown(value)} is not more than nothing.")
        return given

    return validate


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
    if number <= 0:
        raise ValueError(f"{shown(value)} is not more than nothing.")
    return float(number)


Word = Annotated[str, Field(min_length=1)]
Duration = Annotated[timedelta, BeforeValidator(_parsed(parse_duration, timedelta)), PlainSerializer(_duration_text)]
Rate = Annotated[float, BeforeValidator(_rate)]
Bytes = Annotated[int, BeforeValidator(_parsed(parse_bytes, int))]
TableName = Annotated[str, AfterValidator(_table)]
OptionText = Annotated[str, BeforeValidator(_option_text)]
