"""What every column encoder has in common: which values its column takes, and how those are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from spark_jobs.warehouse.copy_encoding.field import Bools, Field
from spark_jobs.warehouse.postgres_types import PostgresType

_LONGEST_SHOWN = 60


class ColumnEncoder(ABC):
    """Encodes arrow values for one column. A column takes a value only if it keeps it exactly.

    Args:
        type: the column's type.
        source: arrow type of the values, one for which `accepts` is true.
    """

    def __init__(self, type: PostgresType, source: pa.DataType) -> None:
        self.type = type
        self.source = source

    @classmethod
    @abstractmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """Whether values of this arrow type can be loaded at all; single values may still not fit."""

    @abstractmethod
    def unfit(self, values: pa.Array) -> Bools | None:
        """True for values, not nulls, that the column can't take, shape (n,); None if it takes all."""

    def complaint(self, value: pa.Scalar) -> str:
        """Why an unfit value does not fit: the value, shortened, and what is allowed."""
        return f"{shown(value.as_py())} does not fit {self.type.sql}, which takes {self.allowed()}"

    @abstractmethod
    def allowed(self) -> str:
        """What the column takes, to follow `which takes`."""

    @abstractmethod
    def field(self, values: pa.Array) -> Field:
        """The values, none of them unfit, ready to be sent."""


def shown(value: object) -> str:
    """A value as an error message shows it: printable ASCII and short."""
    text = ascii(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
