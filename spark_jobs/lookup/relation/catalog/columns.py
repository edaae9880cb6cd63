"""The columns of a table as PostgreSQL's catalog has them, and which collations sort text by its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg2 import extensions

# A domain counts as the type that it is over.
_COLUMNS = """
    WITH RECURSIVE base AS (
        SELECT attname, attnum, attnotnull, attcollation, atttypid AS type_id, atttypmod AS modifier,
               format_type(atttypid, atttypmod) AS declared,
               has_column_privilege(attrelid, attnum, 'SELECT') AS readable
        FROM pg_attribute
        WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT base.attname, base.attnum, base.attnotnull, base.attcollation, t.typbasetype, t.typtypmod,
               base.declared, base.readable
        FROM base JOIN pg_type AS t ON t.oid = base.type_id
        WHERE t.typtype = 'd'
    )
    SELECT base.attname, t.typname, base.modifier, base.declared, NOT base.attnotnull, base.readable, base.attcollation
    FROM base JOIN pg_type AS t ON t.oid = base.type_id
    WHERE t.typtype <> 'd'
    ORDER BY base.attnum
"""

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
class CatalogColumn:
    """One column.

    Attributes:
        type: name in pg_type; for a domain that of the type that it is over.
        modifier: atttypmod.
        declared: the type as it was declared.
        nullable: whether it may hold nulls.
        readable: whether this user may read it.
        collation: of text; None for other types.
    """

    type: str
    modifier: int
    declared: str
    nullable: bool
    readable: bool
    collation: Collation | None


def read_columns(connection: extensions.connection, table_id: int) -> dict[str, CatalogColumn]:
    """The columns of a table by name, in the table's order."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (table_id,))
        rows = cursor.fetchall()
    collations = read_collations(connection, {row[-1] for row in rows})
    return {
        name: CatalogColumn(kind, modifier, declared, nullable, readable, collations.get(collation))
        for name, kind, modifier, declared, nullable, readable, collation in rows
    }


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
