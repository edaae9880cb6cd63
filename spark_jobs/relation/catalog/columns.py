"""The columns of a table, as PostgreSQL's catalog has them."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions

from spark_jobs.relation.catalog.collations import Collation, read_collations

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
