"""Types of fact columns, as PostgreSQL's catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass

_HEADER = 4  # PostgreSQL adds this to the modifiers of varchar, char and numeric


@dataclass(frozen=True)
class PostgresType:
    """The type of a column.

    Attributes:
        name: PostgreSQL's internal name of the base type: int8, bpchar, timestamptz, ...
        sql: as SQL writes it, with modifiers: bigint, char(3), numeric(15,2), ...
        length: most characters of varchar(n) and char(n); None without limit.
        precision: digits of numeric(p,s); None without limit.
        scale: digits of numeric(p,s) after the point; None without limit.
        fraction: digits of a second that timestamp(p) keeps; None for all other types.
    """

    name: str
    sql: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fraction: int | None = None

    @classmethod
    def from_catalog(cls, name: str, sql: str, modifier: int) -> PostgresType:
        """Read pg_type.typname, format_type() and pg_attribute.atttypmod (-1: no modifier)."""
        limited = modifier >= 0
        match name:
            case "varchar" | "bpchar":
                return cls(name, sql, length=modifier - _HEADER if limited else None)
            case "numeric" if limited:
                digits = modifier - _HEADER
                # The scale is a signed number of eleven bits.
                return cls(name, sql, precision=digits >> 16, scale=((digits & 0x7FF) ^ 0x400) - 0x400)
            case "timestamp" | "timestamptz":
                return cls(name, sql, fraction=modifier if limited else 6)
            case _:
                return cls(name, sql)
