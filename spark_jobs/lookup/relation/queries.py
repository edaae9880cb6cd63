"""The SQL that reads R. Every read selects the key columns, then those of a validity, then the fetched ones."""

from __future__ import annotations

from psycopg2 import sql

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.key_texts import array_texts, value_texts
from spark_jobs.lookup.relation.relation_spec import KeyColumn, RelationSpec

_AND = sql.SQL(" AND ")
_COMMA = sql.SQL(", ")


def sample_query(spec: RelationSpec, limit: int) -> sql.Composable:
    """Any tuples of R, `limit` at most; all versions of those that have some."""
    if spec.validity is None:
        return sql.SQL("SELECT {} FROM {} LIMIT {}").format(_selected(spec), _table(spec), sql.Literal(limit))
    key = _COMMA.join(sql.Identifier(column.name) for column in spec.key)
    return sql.SQL("SELECT {} FROM {} WHERE ({}) IN (SELECT {} FROM {} LIMIT {})").format(
        _selected(spec), _table(spec), key, key, _table(spec), sql.Literal(limit)
    )


def whole_query(spec: RelationSpec) -> sql.Composable:
    """All tuples of R that a key can equal, in any order."""
    where = sql.SQL(" WHERE {}").format(_AND.join(_not_null(spec))) if _not_null(spec) else sql.SQL("")
    return sql.SQL("SELECT {} FROM {}{}").format(_selected(spec), _table(spec), where)


def page_query(spec: RelationSpec, fences: KeyColumns, number: int, count: int = 1) -> sql.Composable:
    """The tuples of one page, or of some that follow each other: from the first one's fence to that after the last.

    The first and the last page of R have one bound.
    """
    bounds = _not_null(spec)
    if number > 0:
        bounds.append(_bound(spec, ">=", fences, number - 1))
    if number + count - 1 < len(fences):
        bounds.append(_bound(spec, "<", fences, number + count - 1))
    where = sql.SQL(" WHERE {}").format(_AND.join(bounds)) if bounds else sql.SQL("")
    return sql.SQL("SELECT {} FROM {}{}").format(_selected(spec), _table(spec), where)


def lookup_query(spec: RelationSpec, keys: KeyColumns) -> sql.Composable:
    """The tuples of R that have one of these keys; the keys are distinct and valid.

    Measured on 2 million rows: = ANY, which sorts the keys itself, needs 3.1 microseconds a key for 10,000 keys and 1.7
    for 50,000. A nested loop over unnest, the one that can have several columns, 2.9 and 2.0 if the keys come in order
    and 3.6 if not; keys copied into a temporary table 3.7 and more, VALUES 4.5 to 18.
    """
    if len(spec.key) == 1:
        column = spec.key[0]
        return sql.SQL("SELECT {} FROM {} WHERE {} = ANY({})").format(
            _selected(spec), _table(spec), _expression(column, column.lookup_collation), *key_arrays(keys)
        )
    # OFFSET 0 keeps the planner from any other plan than one descent of the index per key.
    wanted = [sql.Identifier("wanted", f"key{i}") for i in range(len(spec.key))]
    conditions = [
        sql.SQL("{} = {}").format(_expression(column, column.lookup_collation), key)
        for column, key in zip(spec.key, wanted, strict=True)
    ]
    return sql.SQL(
        "SELECT found.* FROM unnest({}) AS wanted({}) CROSS JOIN LATERAL (SELECT {} FROM {} WHERE {} OFFSET 0) AS found"
    ).format(
        _COMMA.join(key_arrays(keys)),
        _COMMA.join(sql.Identifier(f"key{i}") for i in range(len(spec.key))),
        _selected(spec),
        _table(spec),
        _AND.join(conditions),
    )


def fence_query(spec: RelationSpec, page_rows: int) -> sql.Composable:
    """The first key of every page in key order, page 0 included. Versions of a key are all on one page.

    From each fence it skips a page's keys within the index: 30 nanoseconds a tuple of R, where row_number() takes 100.
    """
    names = [sql.Identifier(f"key{i}") for i in range(len(spec.key))]
    expressions = [_expression(column, column.page_collation) for column in spec.key]
    return sql.SQL(
        "WITH RECURSIVE fence AS ("
        " (SELECT {aliased} FROM {table}{where} ORDER BY {key} LIMIT 1)"
        " UNION ALL"
        " SELECT page.* FROM fence CROSS JOIN LATERAL ("
        "SELECT {aliased} FROM {table} WHERE {bounds} ORDER BY {key} OFFSET {skip} LIMIT 1) AS page"
        ") SELECT {names} FROM fence"
    ).format(
        aliased=_COMMA.join(
            sql.SQL("{} AS {}").format(sql.Identifier(column.name), name)
            for column, name in zip(spec.key, names, strict=True)
        ),
        table=_table(spec),
        where=sql.SQL(" WHERE {}").format(_AND.join(_not_null(spec))) if _not_null(spec) else sql.SQL(""),
        key=_COMMA.join(expressions),
        bounds=_AND.join(
            [
                *_not_null(spec),
                _compared(expressions, ">", [sql.Identifier("fence", f"key{i}") for i in range(len(spec.key))]),
            ]
        ),
        skip=sql.Literal(spec.table_rows(page_rows) - 1),
        names=_COMMA.join(names),
    )


def tuples_beyond_query(spec: RelationSpec, fences: KeyColumns, number: int, limit: int) -> sql.Composable:
    """How many rows of the table a page has, counted up to `limit`."""
    return sql.SQL("SELECT count(*) FROM ({} LIMIT {}) AS page").format(
        page_query(spec, fences, number), sql.Literal(limit)
    )


def _table(spec: RelationSpec) -> sql.Composable:
    return sql.Identifier(spec.schema, spec.table)


def _selected(spec: RelationSpec) -> sql.Composable:
    """The columns of a read. A fetched char(n) is read as text, which drops its padding as any cast to text does."""
    validity = () if spec.validity is None else (spec.validity.begin, spec.validity.end)
    fetched = [
        sql.SQL("{}::text").format(sql.Identifier(column.name))
        if column.type.postgres == "bpchar"
        else sql.Identifier(column.name)
        for column in spec.fetched
    ]
    return _COMMA.join([*(sql.Identifier(column.name) for column in (*spec.key, *validity)), *fetched])


def _expression(column: KeyColumn, collation: tuple[str, str] | None) -> sql.Composable:
    name = sql.Identifier(column.name)
    return name if collation is None else sql.SQL("{} COLLATE {}").format(name, sql.Identifier(*collation))


def _not_null(spec: RelationSpec) -> list[sql.Composable]:
    return [sql.SQL("{} IS NOT NULL").format(sql.Identifier(column.name)) for column in spec.key if column.nullable]


def _bound(spec: RelationSpec, comparison: str, fences: KeyColumns, fence: int) -> sql.Composable:
    expressions = [_expression(column, column.page_collation) for column in spec.key]
    return _compared(expressions, comparison, key_row(fences, fence))


def _compared(left: list[sql.Composable], comparison: str, right: list[sql.Composable]) -> sql.Composable:
    return sql.SQL("({}) {} ({})").format(_COMMA.join(left), sql.SQL(comparison), _COMMA.join(right))


def key_arrays(keys: KeyColumns) -> list[sql.Composable]:
    """One array literal, with its type, for each key column of these keys, shape (n,)."""
    return [
        sql.SQL("{}::{}[]").format(sql.Literal(text), sql.SQL(kind.value))
        for text, kind in zip(array_texts(keys), keys.kinds, strict=True)
    ]


def key_row(keys: KeyColumns, index: int) -> list[sql.Composable]:
    """The literals of one key, with their types, one for each key column."""
    return [
        sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(kind.value))
        for text, kind in zip(value_texts(keys, index), keys.kinds, strict=True)
    ]
