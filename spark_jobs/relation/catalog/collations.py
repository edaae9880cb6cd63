"""Collations: which of them sort text by its bytes, as our encoded keys are sorted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg2 import extensions

_COLLATIONS = """
    SELECT c.oid, n.nspname, c.collname, c.collisdeterministic,
           (CASE WHEN c.collprovider = 'd' THEN d.datlocprovider ELSE c.collprovider END)::text,
           CASE WHEN c.collprovider = 'd' THEN d.datcollate ELSE c.collcollate END
    FROM pg_collation AS c
    JOIN pg_namespace AS n ON n.oid = c.collnamespace
    JOIN pg_database AS d ON d.datname = current_database()
    WHERE c.oid = ANY(%s::oid[])
"""
_BUILTIN = "b"
_LIBC = "c"


@dataclass(frozen=True)
class Collation:
    """One collation.

    Attributes:
        name: schema and name.
        deterministic: whether texts are equal only if their bytes are.
        by_bytes: whether texts are in the order of their UTF-8 bytes.
    """

    name: tuple[str, str]
    deterministic: bool
    by_bytes: bool


def read_collations(connection: extensions.connection, identifiers: Iterable[int]) -> dict[int, Collation]:
    """The collations with these identifiers; 0 stands for none."""
    with connection.cursor() as cursor:
        cursor.execute(_COLLATIONS, (list(identifiers),))
        rows = cursor.fetchall()
        cursor.execute("SHOW server_encoding")
        [(encoding,)] = cursor.fetchall()
    return {
        identifier: Collation((schema, name), deterministic, encoding == "UTF8" and _sorts_by_bytes(provider, locale))
        for identifier, schema, name, deterministic, provider, locale in rows
    }


def _sorts_by_bytes(provider: str, locale: str | None) -> bool:
    """The C library's own C.UTF-8 sorts by code point in new versions only, so it does not count."""
    return provider == _BUILTIN or (provider == _LIBC and locale in ("C", "POSIX"))
