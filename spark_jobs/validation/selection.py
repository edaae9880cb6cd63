"""Which facts a validation is asked to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

_Time = Annotated[datetime, AfterValidator(lambda time: time if time.tzinfo else time.replace(tzinfo=UTC))]


class Selection(BaseModel):
    """Which loads (batches and reprocessing runs) to look at.

    Attributes:
        what: those that no validation has looked at (`new`), those with certain numbers (`batches`), those of a
            certain time (`loaded`), or `everything` that is in the fact table.
        first_batch, last_batch: numbers, both included; for `batches`, at least one of them.
        loaded_from, loaded_until: when the load was closed, the end not included; for `loaded`, at least one of
            them. UTC where a time says nothing else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["new", "batches", "loaded", "everything"] = "new"
    first_batch: int | None = None
    last_batch: int | None = None
    loaded_from: _Time | None = None
    loaded_until: _Time | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> Selection:
        bounds = {"batches": (self.first_batch, self.last_batch), "loaded": (self.loaded_from, self.loaded_until)}
        for what, given in bounds.items():
            if what == self.what and given == (None, None):
                raise ValueError(f"{what}: give a first or a last one, or both.")
            if what != self.what and given != (None, None):
                raise ValueError(f"Bounds of {what} don't go with {self.what!r}: leave them out.")
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
