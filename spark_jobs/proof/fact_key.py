"""Looks whether the fact table's key is still there: that a fact is stored once rests on it."""

from __future__ import annotations

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.proof import Finding
from spark_jobs.warehouse.fact_table import has_key

_REPEATED = """
    SELECT count(*), coalesce(sum(times - 1), 0)::bigint
    FROM (SELECT count(*) AS times FROM {table} GROUP BY {key} HAVING count(*) > 1) AS repeated
"""


def missing_key(cursor: extensions.cursor, definition: PipelineDefinition) -> Finding | None:
    """What is wrong with the fact table's key; None where it is there. O(1), O(facts) where it is not.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
    """
    schema, table = definition.fact.table.split(".", 1)
    event_id = definition.tuples.event_id
    key = [name for name, source in definition.fact.columns.items() if source in event_id]
    cursor.execute(sql.SQL("SELECT {}").format(has_key(schema, table, key)))
    if cursor.fetchone() == (True,):
        return None
    names = sql.SQL(", ").join(map(sql.Identifier, key))
    cursor.execute(sql.SQL(_REPEATED).format(table=sql.Identifier(schema, table), key=names))
    [(events, surplus)] = cursor.fetchall()
    told = f"{events:,} events are stored more than once, in {surplus:,} rows too many" if events else "none is by now"
    return Finding("fact_key", max(1, surplus), (f"{definition.fact.table} ({', '.join(key)}): {told}",))
