"""Proves a pipeline's load: every landed event is in exactly one place, and the facts equal the plain SQL join.

The landed files are read again here, by the decoder that the stream has, and compared with the warehouse inside
PostgreSQL. Joins, loader and ledger are not trusted: what the ledger says of the files is compared with the files.
"""

from __future__ import annotations

import time
from dataclasses import replace

from psycopg2 import extensions
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.shapes import AccumulatedStreams, JoinedStreams, OneStream
from spark_jobs.proof.fact_key import missing_key
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.source_proof import prove_source
from spark_jobs.proof.streams_proof import prove_accumulated, prove_joined
from spark_jobs.settings import Home
from spark_jobs.shown_text import SafeConsole
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
            terminal = SafeConsole(stderr=True)
            with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
                proof = _prove(cursor, definition, home, progress)
            keyless = missing_key(cursor, definition)
            if keyless is not None:
                proof = replace(proof, differences=(*proof.differences, keyless))
    finally:
        connection.close()
    return replace(proof, seconds=time.monotonic() - started)


def _prove(cursor: extensions.cursor, definition: PipelineDefinition, home: Home, progress: Progress) -> Proof:
    match definition.shape:
        case OneStream(source):
            return prove_source(cursor, definition, source, home, progress)
        case JoinedStreams() as shape:
            return prove_joined(cursor, definition, shape, home, progress)
        case AccumulatedStreams() as shape:
            return prove_accumulated(cursor, definition, shape, home, progress)
