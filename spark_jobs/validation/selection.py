"""Which facts a validation is asked to look at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from spark_jobs.errors import FreshetError
from spark_jobs.timestamps import check_window, parse_timestamp


def _moment(given: Any) -> Any:
    return parse_timestamp(given) if isinstance(given, str) else given


# Strict: of itself pydantic takes a number, even as text, for seconds since 1970.
_Moment = Annotated[datetime, Field(strict=True), BeforeValidator(_moment)]


class Selection(BaseModel):
    """Which loads (batches and reprocessing runs) to look at.

    Attributes:
        what: those that no validation has looked at (`new`), those with certain numbers (`batches`), those of a
            certain time (`loaded`), or `everything` that is in the fact table.
        first_batch, last_batch: numbers, both included; for `batches`, at least one of them.
        loaded_from, loaded_until: when the load was closed, the end not included; for `loaded`, at least one of
            them. UTC where a time says nothing else.

    Raises:
        ValidationError: a field is not of its type, or bounds are missing or do not go with `what`.
        FreshetError: no load can be between the bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["new", "batches", "loaded", "everything"] = "new"
    first_batch: int | None = None
    last_batch: int | None = None
    loaded_from: _Moment | None = None
    loaded_until: _Moment | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> Selection:
        bounds = {"batches": (self.first_batch, self.last_batch), "loaded": (self.loaded_from, self.loaded_until)}
        for what, given in bounds.items():
            if what == self.what and given == (None, None):
                raise ValueError(f"{what}: give a first or a last one, or both.")
            if what != self.what and given != (None, None):
                raise ValueError(f"Bounds of {what} don't go with {self.what!r}: leave them out.")
        return self

    @model_validator(mode="after")
    def _check_order(self) -> Selection:
        # No ValueErrors, which pydantic wraps: `freshet validate` gets here too, and shows these as they are.
        if self.first_batch is not None and self.last_batch is not None and self.first_batch > self.last_batch:
            raise FreshetError(
                f"first_batch and last_batch: there are no batches from {self.first_batch} to {self.last_batch}. "
                "Let the first number be no larger than the last."
            )
        try:
            check_window(self.loaded_from, self.loaded_until)
        except ValueError as error:
            raise FreshetError(f"loaded_from and loaded_until: {error}") from error
        return self

    def __str__(self) -> str:
        """The selection in words."""
        if self.what == "new":
            return "what was loaded since the last validation"
        if self.what == "everything":
            return "everything"
        if self.what == "batches":
            return f"batches {_span(self.first_batch, self.last_batch, 'to')}"
        loaded_from, loaded_until = (
            None if time is None else time.isoformat(sep=" ") for time in (self.loaded_from, self.loaded_until)
        )
        return f"what was loaded {_span(loaded_from, loaded_until, 'until')}"


def _span(first: object, last: object, up_to: str) -> str:
    parts = [f"from {first}" if first is not None else "", f"{up_to} {last}" if last is not None else ""]
    return " ".join(part for part in parts if part)
