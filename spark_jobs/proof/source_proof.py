"""The proof of a pipeline that has one source: its events, in a temporary table, against the warehouse."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition, Source
from spark_jobs.definition.fates import PLACES
from spark_jobs.definition.shapes import Tuples
from spark_jobs.proof.account import Account
from spark_jobs.proof.comparison import Comparison
from spark_jobs.proof.held import HeldTuples
from spark_jobs.proof.held_comparison import HeldComparison
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.landed_records import EventIds
from spark_jobs.proof.ledger_sums import check_batches, check_sums
from spark_jobs.proof.proof import DIFFERENCES, NOTES, Findings, Proof
from spark_jobs.proof.staged_events import LANDED, LANDED_TABLE, Staging, loaded_columns, needed_columns
from spark_jobs.proof.stored_tuples import StoredTuples
from spark_jobs.settings import Home
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.kinds import kind_of
from spark_jobs.source.slice_reading import SliceReader


def prove_source(
    cursor: extensions.cursor, definition: PipelineDefinition, source: Source, home: Home, progress: Progress
) -> Proof:
    """Compare all landed events with the warehouse.

    Args:
        cursor: in a transaction that sees one state of the warehouse.
        definition: the pipeline.
        source: where its events come from.
        home: the installation, with the landing folder.
        progress: is told of the files that are read.

    Raises:
        SchemaMismatchError: a table of the pipeline is missing in the warehouse.
    """
    findings = Findings()
    stored = StoredTuples.of_source(cursor, definition)
    held = HeldTuples(cursor, stored, Tuples.of(source))  # the snapshot first, then the landing: what is loaded landed
    staging = Staging(cursor, LANDED_TABLE, needed_columns(definition), loaded_columns(definition))
    joined = JoinedEvents(cursor, definition, staging)
    ids = EventIds(source, joined.key_types, held)
    stream = SourceStream(definition.name, source, home)
    landing = kind_of(source).landing(stream, cursor)
    account = Account(landing, SliceReader.of_stream(stream), ids, staging, findings)
    account.read(progress)
    progress.add_task("comparing", total=None)
    comparison = Comparison(cursor, definition, joined, stored, account, findings)
    read_again = comparison.take_read_again()
    comparison.find_unstored()
    pending_records = comparison.missing()
    duplicates = comparison.duplicates()
    comparison.in_two_places()
    held_comparison = HeldComparison(cursor, stored, LANDED, account.absent, findings)
    held_comparison.extra()
    comparison.wrong_facts()
    held_comparison.payloads()
    held_comparison.rejected(joined.can_match)
    counts: dict[str, int] = {place: held_comparison.held[place] + held_comparison.pruned[place] for place in PLACES}
    check_sums(cursor, definition.name, {"facts": comparison.facts, **counts}, findings)
    check_batches(cursor, definition.name, findings)
    held_counts: dict[str, Any] = {place: held_comparison.held[place] for place in PLACES}
    return Proof(
        pipeline=definition.name,
        files=len(account.labels),
        pending_files=account.pending_files,
        records=account.records,
        pending_records=pending_records,
        duplicates=duplicates,
        facts=comparison.facts,
        **held_counts,
        pruned=held_comparison.pruned.total(),
        resolvable=comparison.resolvable(),
        unchecked=held_comparison.unchecked,
        former=comparison.explained.former,
        unprovable=comparison.explained.unprovable + comparison.gone,
        gone_facts=comparison.gone,
        gone_held=held_comparison.gone,
        read_again=read_again,
        differences=findings.of(DIFFERENCES),
        notes=findings.of(NOTES),
    )
