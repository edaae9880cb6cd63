"""Proves a pipeline's load: every landed event is in exactly one place, and the facts equal the plain SQL join.

The landed files are read again here, without Spark, and compared with the warehouse inside PostgreSQL. Nothing
of what the stream did is trusted but its list of the files that it has committed, and that only to tell what
is missing from what is still to come.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from psycopg2 import extensions
from rich.console import Console
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.comparison import Comparison
from spark_jobs.proof.events import UnreadableFileError, read_events, unreadable_file
from spark_jobs.proof.ids import EventIds, digest_id
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.landing import LandedFile, committed_files, landed_files
from spark_jobs.proof.report import Proof
from spark_jobs.proof.staging import Staging
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import connect

# Whole tables are hashed here, and the statements run one after the other. That all columns of a fact are right is
# what the planner takes for next to impossible: for the one row that it expects it would run through a whole table,
# and then do so for each fact.
_SESSION = (
    "SET LOCAL work_mem = '256MB'; SET LOCAL enable_nestloop = off; SET LOCAL jit = off; SET LOCAL TimeZone = 'UTC'"
)


def verify(definition: PipelineDefinition, warehouse_url: str, home: Home) -> Proof:
    """Compare all landed events with the warehouse; shows its progress on a terminal's standard error.

    It may run beside the stream: it sees the warehouse as it is when it starts. R is taken as it is then, or as noted
    changes say that it was since an event arrived. A fact whose landed file has been removed counts as one that never
    landed. Memory is bounded: the events go into a temporary table.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse; the role must be able to make temporary tables.
        home: the installation, which holds the landing folder and Spark's checkpoint.

    Raises:
        SchemaMismatchError: a table of the pipeline is missing in the warehouse.
        WarehouseUnavailableError: the warehouse can't be reached.
        PlatformError: Spark's checkpoint can't be understood.
    """
    started = time.monotonic()
    # First the list of committed files, then the warehouse's snapshot, then the landing: so what is committed is in
    # the snapshot, and what is in the snapshot has landed.
    committed = committed_files(home.checkpoint(definition.name))
    connection = connect(warehouse_url, application_name=f"freshet verify {definition.name}")
    try:
        connection.set_session(isolation_level=extensions.ISOLATION_LEVEL_REPEATABLE_READ)
        with connection, connection.cursor() as cursor:
            cursor.execute(_SESSION)
            held_digests = _held_digests(cursor, definition.name)
            files = landed_files(definition.source.resolved_path(home))
            pending = {path for path in files if path not in committed}
            staging = Staging(cursor, definition)
            joined = JoinedEvents(cursor, definition, staging)
            ids = EventIds(definition, joined.key_types, held_digests)
            terminal = Console(stderr=True)
            with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
                records, read = _stage(definition, files, pending, ids, staging, progress)
                progress.add_task("comparing", total=None)
                comparison = Comparison(cursor, definition, joined, read)
                differences = tuple(comparison.differences())
    finally:
        connection.close()
    return Proof(
        pipeline=definition.name,
        files=len(files),
        pending_files=len(pending),
        records=records,
        pending_records=comparison.pending_records,
        facts=comparison.facts,
        shed=comparison.held["shed"],
        unmatched=comparison.held["unmatched"],
        rejected=comparison.held["rejected"],
        pruned=comparison.pruned.total(),
        resolvable=comparison.resolvable,
        former=comparison.explained.former,
        unprovable=comparison.explained.unprovable,
        differences=differences,
        seconds=time.monotonic() - started,
    )


def _held_digests(cursor: extensions.cursor, pipeline: str) -> set[str]:
    """Ids that are digests, of the tuples that are held, and of those that were until retention deleted them."""
    cursor.execute(
        """
        SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id LIKE %(digest)s
        UNION SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s AND event_id LIKE %(digest)s
        """,
        {"pipeline": pipeline, "digest": digest_id("%")},
    )
    return {event_id for (event_id,) in cursor}


def _stage(
    definition: PipelineDefinition,
    files: Sequence[Path],
    pending: Collection[Path],
    ids: EventIds,
    staging: Staging,
    progress: Progress,
) -> tuple[int, list[LandedFile]]:
    """Bring the events of all files into the temporary table.

    Returns:
        The number of records, and the files.
    """
    records, read = 0, []
    for number, path in enumerate(progress.track(files, description="reading landed files")):
        label, arrived = path.name, datetime.fromtimestamp(path.stat().st_mtime, UTC)
        try:
            count = 0
            for events in read_events(path, definition.source):
                count += events.values.num_rows
                staging.add(number, path in pending, ids.identify(events))
        except UnreadableFileError as error:
            count = 1
            label += f", which can't be read: {error}"
            staging.discard(number)
            staging.add(number, path in pending, ids.identify(unreadable_file(path, definition.source)))
        records += count
        read.append(LandedFile(label, arrived))
    staging.finish()
    return records, read
