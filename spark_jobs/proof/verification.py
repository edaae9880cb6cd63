"""Proves a pipeline's load: every landed event is in exactly one place, and the facts equal the plain SQL join.

The landed files are read again here, by the decoder that the stream has, and compared with the warehouse inside
PostgreSQL. Joins, loader and ledger are not trusted: what the ledger says of the files is compared with the files.
"""

from __future__ import annotations

import time
from dataclasses import replace

from psycopg2 import extensions
from rich.console import Console
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import PLACES
from spark_jobs.proof.account import Account
from spark_jobs.proof.comparison import Comparison
from spark_jobs.proof.held import HeldTuples
from spark_jobs.proof.held_comparison import HeldComparison
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.landed_records import EventIds
from spark_jobs.proof.landing_folder import Landing
from spark_jobs.proof.ledger_sums import check_batches, check_sums
from spark_jobs.proof.proof import DIFFERENCES, NOTES, Findings, Proof
from spark_jobs.proof.staged_events import LANDED, LANDED_TABLE, Staging, loaded_columns, needed_columns
from spark_jobs.proof.stored_tuples import StoredTuples
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

    It may run beside the stream: it sees the warehouse, and with it what is loaded of which file, as it is when it
    starts. R is taken as it is then, or as noted changes say that it was since an event arrived. Memory is bounded but
    for the names of files: the events go into a temporary table.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse; the role must be able to make temporary tables.
        home: the installation, which holds the landing folder.

    Raises:
        SchemaMismatchError: a table of the pipeline is missing in the warehouse.
        WarehouseUnavailableError: the warehouse can't be reached.
    """
    started = time.monotonic()
    connection = connect(warehouse_url, application_name=f"freshet verify {definition.name}")
    try:
        connection.set_session(isolation_level=extensions.ISOLATION_LEVEL_REPEATABLE_READ)
        with connection, connection.cursor() as cursor:
            cursor.execute(_SESSION)
            terminal = Console(stderr=True)
            with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
                proof = _prove_source(cursor, definition, home, progress)
    finally:
        connection.close()
    return replace(proof, seconds=time.monotonic() - started)


def _prove_source(cursor: extensions.cursor, definition: PipelineDefinition, home: Home, progress: Progress) -> Proof:
    """The proof of a pipeline that has one source."""
    findings = Findings()
    stored = StoredTuples.of_source(cursor, definition.name)
    held = HeldTuples(cursor, stored, definition.source)  # the snapshot first, then the landing: what is loaded landed
    staging = Staging(cursor, LANDED_TABLE, needed_columns(definition), loaded_columns(definition))
    joined = JoinedEvents(cursor, definition, staging)
    ids = EventIds(definition.source, joined.key_types, held)
    landing = Landing.of(definition.name, definition.source, home)
    account = Account(cursor, landing, definition.source, ids, staging, findings)
    account.read(progress)
    progress.add_task("comparing", total=None)
    comparison = Comparison(cursor, definition, joined, stored, account, findings)
    comparison.find_unstored()
    pending_records = comparison.missing()
    comparison.in_two_places()
    held_comparison = HeldComparison(cursor, stored, LANDED, account.absent, findings)
    held_comparison.extra()
    comparison.wrong_facts()
    held_comparison.payloads()
    held_comparison.rejected(joined.can_match)
    counts = {place: held_comparison.held[place] + held_comparison.pruned[place] for place in PLACES}
    check_sums(cursor, definition.name, {"facts": comparison.facts, **counts}, findings)
    check_batches(cursor, definition.name, findings)
    return Proof(
        pipeline=definition.name,
        files=len(account.labels),
        pending_files=account.pending_files,
        records=account.records,
        pending_records=pending_records,
        facts=comparison.facts,
        shed=held_comparison.held["shed"],
        unmatched=held_comparison.held["unmatched"],
        rejected=held_comparison.held["rejected"],
        pruned=held_comparison.pruned.total(),
        resolvable=comparison.resolvable(),
        unchecked=held_comparison.unchecked,
        former=comparison.explained.former,
        unprovable=comparison.explained.unprovable + comparison.gone,
        gone_facts=comparison.gone,
        gone_held=held_comparison.gone,
        differences=findings.of(DIFFERENCES),
        notes=findings.of(NOTES),
    )
