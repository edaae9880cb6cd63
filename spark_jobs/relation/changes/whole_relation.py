"""By what it is known that a key is not in R, without reading R: all of R was read, and its changes are noted."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions

from spark_jobs.relation.changes.unnoticed import Changes, unnoticed
from spark_jobs.relation.changes.watched_tables import WatchedTable, watched_tables
from spark_jobs.relation.relation_spec import RelationSpec


@dataclass(frozen=True)
class WholeRelation:
    """R as it was read whole, or brought up to date since. What was not in it then is absent if it has not changed.

    Attributes:
        noticed: pg_snapshot as text: changes by transactions visible in it have been brought in.
        tables: those that hold R's rows, with triggers that have noted every change since.
    """

    noticed: str
    tables: tuple[WatchedTable, ...]

    def changes(self, connection: extensions.connection, spec: RelationSpec) -> Changes | None:
        """What has changed in R until now; None where anything may have. O(changes), about 3 ms.

        Args:
            connection: to the warehouse, not in a transaction.
            spec: R.
        """
        with connection.cursor() as cursor:
            tables = watched_tables(cursor, [spec.relation])[spec.relation]
        if tables != self.tables:
            return None
        changes = unnoticed(connection, spec, self.noticed)
        return None if changes.anything else changes


def notes_every_change(tables: tuple[WatchedTable, ...]) -> bool:
    """Whether the triggers on these tables, which note changes, do so in every session."""
    return bool(tables) and not any(table.refusal or table.not_always for table in tables)
