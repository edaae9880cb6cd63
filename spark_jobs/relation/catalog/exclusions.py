"""Exclusion constraints that keep the versions of a tuple of R apart."""

from __future__ import annotations

from psycopg2 import extensions

from spark_jobs.relation.relation_spec import RelationSpec

# Its parts are columns of the key, compared by =, and one range of the validity, compared by &&:
# EXCLUDE USING gist (id WITH =, tstzrange(valid_from, valid_to) WITH &&). A part that is no column is attribute 0.
_FORBIDS_OVERLAPS = """
    SELECT EXISTS (
        SELECT FROM pg_constraint AS c JOIN pg_index AS i ON i.indexrelid = c.conindid
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE part.attnum = 0 AND o.oprname = '&&') AS ranges,
                count(*) FILTER (WHERE o.oprname = '=' AND a.attname = ANY(%(key)s)) AS key_columns, count(*) AS parts
            FROM unnest(i.indkey::int2[], c.conexclop) AS part (attnum, operator)
            JOIN pg_operator AS o ON o.oid = part.operator
            LEFT JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = part.attnum
        ) AS counted
        CROSS JOIN LATERAL (
            SELECT array_agg(a.attname::text ORDER BY a.attname) AS columns
            FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
            WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.conrelid
        ) AS expressed
        WHERE c.conrelid = %(table)s AND c.contype = 'x' AND i.indisvalid AND i.indpred IS NULL
            AND ranges = 1 AND ranges + key_columns = parts AND expressed.columns = %(validity)s
    )
"""


def forbids_overlaps(connection: extensions.connection, table_id: int, spec: RelationSpec) -> bool:
    """Whether no two versions of a key can be valid at the same time, because an exclusion constraint forbids it.

    Args:
        connection: where R is.
        table_id: R's.
        spec: the relation, with a validity.
    """
    assert spec.validity is not None, f"{spec.relation} keeps no versions"
    parameters = {
        "table": table_id,
        "validity": sorted([spec.validity.begin.name, spec.validity.end.name]),
        "key": [column.name for column in spec.key],
    }
    with connection.cursor() as cursor:
        cursor.execute(_FORBIDS_OVERLAPS, parameters)
        [(forbidden,)] = cursor.fetchall()
    return bool(forbidden)
