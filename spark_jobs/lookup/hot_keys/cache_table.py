"""What is reported about hot sets and copies of R: one row of freshet.cache for each lookup."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from psycopg2 import extensions

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.definition import Lookup
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetVersion
from spark_jobs.lookup.local_copy.copy_files import CopyManifest

Watched = Literal["triggers", "rereading", "nothing"]


@dataclass(frozen=True)
class CacheRow:
    """The state of one lookup's hot set, and of its copy of R.

    Attributes:
        lookup: its number in the pipeline.
        relation: schema.table.
        version: number of the newest version on disk that it holds or has written.
        origin: who made that version.
        hot_tuples: tuples of R that it holds.
        built_at: when that version was made.
        rebuilt_at: when the rebuilt version that it took over last was made.
        snapshot_version: number of the snapshot of R that batches read; None: they read R live.
        snapshot_at: when that snapshot was made.
        watched: how changes of R are noticed.
        noticed: pg_snapshot of the last look, as text.
        noticed_ago: how long ago that was.
        notice_changes: how soon a change is to be noticed.
        refused: why the newest version on disk is not used.
        refused_at: since when.
    """

    lookup: int
    relation: str
    version: int
    origin: Literal["learned", "rebuilt"] | None
    hot_tuples: int
    built_at: datetime | None
    rebuilt_at: datetime | None
    snapshot_version: int | None
    snapshot_at: datetime | None
    watched: Watched
    noticed: str | None
    noticed_ago: timedelta | None
    notice_changes: timedelta
    refused: str | None
    refused_at: datetime | None


def write_cache_rows(cursor: extensions.cursor, pipeline: str, epoch: int, rows: list[CacheRow]) -> None:
    """Tell the state of all lookups of a pipeline. A driver that a newer one has replaced tells nothing any more.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        epoch: the driver's epoch.
        rows: one for each lookup.
    """
    for row in rows:
        cursor.execute(
            """
            INSERT INTO freshet.cache (pipeline, lookup, relation, version, origin, hot_tuples, built_at, rebuilt_at,
                                       snapshot_version, snapshot_at, watched, noticed, noticed_at, notice_changes,
                                       refused, refused_at)
            SELECT name, %(lookup)s, %(relation)s, %(version)s, %(origin)s, %(hot_tuples)s, %(built_at)s,
                %(rebuilt_at)s, %(snapshot_version)s, %(snapshot_at)s, %(watched)s, %(noticed)s::pg_snapshot,
                clock_timestamp() - %(noticed_ago)s::interval, %(notice_changes)s, %(refused)s, %(refused_at)s
            FROM freshet.pipeline WHERE name = %(pipeline)s AND epoch = %(epoch)s
            ON CONFLICT (pipeline, lookup) DO UPDATE SET
                relation = excluded.relation, version = excluded.version, origin = excluded.origin,
                hot_tuples = excluded.hot_tuples, built_at = excluded.built_at,
                rebuilt_at = coalesce(excluded.rebuilt_at, cache.rebuilt_at),
                snapshot_version = excluded.snapshot_version, snapshot_at = excluded.snapshot_at,
                watched = excluded.watched,
                noticed = excluded.noticed, noticed_at = excluded.noticed_at,
                notice_changes = excluded.notice_changes, refused = excluded.refused, refused_at = excluded.refused_at
            """,
            vars(row) | {"pipeline": pipeline, "epoch": epoch},
        )
    cursor.execute(
        "DELETE FROM freshet.cache USING freshet.pipeline "
        "WHERE cache.pipeline = name AND name = %s AND epoch = %s AND lookup <> ALL (%s)",
        [pipeline, epoch, [row.lookup for row in rows]],
    )


def note_rebuilt(
    connection: extensions.connection,
    pipeline: str,
    position: int,
    lookup: Lookup,
    version: HotSetVersion | None,
    copy: CopyManifest | None,
) -> None:
    """Write what was rebuilt into freshet.cache, unless a driver lives. Nothing for a pipeline that has never run.

    Args:
        connection: to the warehouse, not in a transaction.
        pipeline: its name.
        position: number of the lookup.
        lookup: the lookup.
        version: the rebuilt hot tuples; None where they were not rebuilt.
        copy: the new copy of R; None where there is none.
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
                "snapshot_version": None if copy is None else copy.version,
                "snapshot_at": None if copy is None else copy.built_at,
            },
        )
