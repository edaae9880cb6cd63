"""How values of several streams match: the key `match` of `join`, and what columns it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fields import Part
from spark_jobs.definition.problems import shown
from spark_jobs.durations import parse_duration

_WIDEST = 2**62
# An int64 holds any value of these, in their order; so it does decimals of up to 18 digits.
_ORDERED = ("bigint", "int", "smallint", "tinyint", "date", "timestamp")
_MOST_DIGITS = 18
_TIMES = {"timestamp": ("a microsecond", timedelta(microseconds=1)), "date": ("a day", timedelta(days=1))}


class Band(Part):
    """Values of one column each at most so far apart: |x - y| <= band.

    Attributes:
        band: a number, or a duration where the columns are times or dates.
    """

    band: Annotated[str | int | float, WithJsonSchema({"type": ["string", "number"]})] = Field(
        examples=["match: {band: 5m}", "match: {band: 0.05}"]
    )

    def width(self, kind: StreamType) -> int:
        """The width in units of a column: microseconds, days, or the last digit.

        Raises:
            ValueError: it is not a width of such values; the message says what is allowed.
        """
        if kind.name in _TIMES:
            if not isinstance(self.band, str):
                raise ValueError(f"{shown(self.band)} has no unit; write a duration, for example 5m.")
            smallest, unit = _TIMES[kind.name]
            units = Decimal(parse_duration(self.band) / unit)
        else:
            smallest = str(Decimal(1).scaleb(-kind.scale))
            try:
                units = Decimal(str(self.band)).scaleb(kind.scale)
            except InvalidOperation:
                raise ValueError(f"{shown(self.band)} is not a number, as a band of {kind} is.") from None
        if not (units.is_finite() and 0 <= units < _WIDEST) or units % 1:
            raise ValueError(f"{shown(self.band)} is not allowed. Allowed: 0 or more, in whole units of {smallest}.")
        return int(units)


def _match(value: Any) -> Any:
    band = value.get("band") if isinstance(value, dict) and len(value) == 1 else None
    is_band = isinstance(band, str | int | float) and not isinstance(band, bool)
    if not (is_band or isinstance(value, Band) or value in ("equal", "overlap")):
        raise ValueError(f"{shown(value)} is no match. Allowed: equal, overlap, or a band such as {{band: 5m}}.")
    return value


Match = Annotated[Literal["equal", "overlap"] | Band, BeforeValidator(_match)]
"""`equal`: the columns of `on` have equal values. `overlap`: [from, to) of two columns each overlap. Or a band."""


def matched_columns(match: Match) -> int:
    """How many columns of `on` are matched so, the last ones; those before them are equal."""
    return 1 if isinstance(match, Band) else 2 if match == "overlap" else 0


def match_problems(match: Match, on: Sequence[tuple[str, Sequence[tuple[str, StreamType]]]]) -> Iterator[str]:
    """What keeps columns from being matched so, but for their types being different.

    Args:
        match: how.
        on: of each stream its name, and its columns.
    """
    if match == "equal":
        return
    count = matched_columns(match)
    for stream, columns in on:
        if len(columns) < count:
            named = f"join.on.{stream} names {len(columns)}"
            yield f"takes two columns, from and to, after those that are equal; {named}."
        for column, kind in columns[-count:]:
            if kind.name not in _ORDERED and not (kind.name == "decimal" and kind.precision <= _MOST_DIGITS):
                allowed = f"{', '.join(_ORDERED)}, decimal of up to {_MOST_DIGITS} digits"
                yield f"takes values that have an order; {stream}.{column} is of type {kind}. Allowed: {allowed}."
                return
    kinds = [kind for _, columns in on for _, kind in columns[-count:]]
    if isinstance(match, Band) and kinds:
        try:
            match.width(kinds[0])
        except ValueError as error:
            yield str(error)
