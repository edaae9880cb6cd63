"""Tells of rebuilt caches where no driver runs that would tell of them when it takes them over."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from psycopg2 import extensions

from spark_jobs.hot_set.cache_files import CacheVersion
from spark_jobs.relation.local_copy import CopyManifest
from spark_jobs.warehouse.drivers import newest_driver


class RebuiltLookup(Protocol):
    """What a pipeline says about a lookup."""

    @property
    def relation(self) -> str:
        """R: schema.table."""

    @property
    def notice_changes(self) -> timedelta:
        """How soon a change of R is to be noticed."""


def note_rebuilt(
    connection: extensions.connection,
    pipeline: str,
    position: int,
    lookup: RebuiltLookup,
    version: CacheVersion | None,
    snapshot: CopyManifest | None,
) -> None:
    """Write what was rebuilt into freshet.cache, unless a driver lives. Nothing for a pipeline that has never run.

    Args:
        connection: to the warehouse, not in a transaction.
        pipeline: its name.
        position: number of the lookup.
        lookup: the lookup.
        version: the rebuilt hot tuples; None where they were not rebuilt.
        snapshot: the new snapshot; None where there is none.
    """
    driver = newest_driver(connection, pipeline)
    connection.commit()
    if driver is not None and driver.is_alive():
        return
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO freshet.cache AS cache (pipeline, lookup, relation, version, origin, hot_tuples, built_at,
                                                rebuilt_at, snapshot_version, snapshot_at, notice_changes)
            SELECT name, %(lookup)s, %(relation)s, coalesce(%(version)s, 0), %(origin)s, coalesce(%(hot_tuples)s, 0),
                %(built_at)s, %(built_at)s, %(snapshot_version)s, %(snapshot_at)s, %(notice_changes)s
            FROM freshet.pipeline WHERE name = %(pipeline)s
            ON CONFLICT (pipeline, lookup) DO UPDATE SET
                relation = excluded.relation,
                version = coalesce(%(version)s, cache.version),
                origin = coalesce(excluded.origin, cache.origin),
                hot_tuples = coalesce(%(hot_tuples)s, cache.hot_tuples),
                built_at = coalesce(excluded.built_at, cache.built_at),
                rebuilt_at = coalesce(excluded.rebuilt_at, cache.rebuilt_at),
                snapshot_version = coalesce(excluded.snapshot_version, cache.snapshot_version),
                snapshot_at = coalesce(excluded.snapshot_at, cache.snapshot_at),
                notice_changes = excluded.notice_changes
            """,
            {
                "pipeline": pipeline,
                "lookup": position,
                "relation": lookup.relation,
                "notice_changes": lookup.notice_changes,
                "version": None if version is None else version.version,
                "origin": None if version is None else version.origin,
                "hot_tuples": None if version is None else len(version.rows),
                "built_at": None if version is None else version.built_at,
                "snapshot_version": None if snapshot is None else snapshot.version,
                "snapshot_at": None if snapshot is None else snapshot.built_at,
            },
        )
