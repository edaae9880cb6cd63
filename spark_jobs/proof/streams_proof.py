"""The proof of a pipeline that joins several streams: of its facts, and of each stream's law.

The joined tuples are made here by SQL, of all landed events but those that were rejected as late. Facts, and joined
tuples that are held, are compared with them as with the events of one source.
"""

from __future__ import annotations

from psycopg2 import extensions
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import PLACES
from spark_jobs.proof.account import Account
from spark_jobs.proof.comparison import Comparison
from spark_jobs.proof.held import HeldTuples
from spark_jobs.proof.held_comparison import HeldComparison
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.landing_folder import Landing
from spark_jobs.proof.ledger_sums import check_batches, check_sums
from spark_jobs.proof.proof import DIFFERENCES, NOTES, Findings, Proof
from spark_jobs.proof.staged_events import LANDED
from spark_jobs.proof.staged_stream import StagedStream
from spark_jobs.proof.stored_tuples import StoredTuples
from spark_jobs.proof.stream_join import StreamJoin
from spark_jobs.proof.stream_ledger import check_stream
from spark_jobs.proof.stream_places import Standings, may_be_absent, report_missing_results
from spark_jobs.proof.waiting import stage_waiting
from spark_jobs.settings import Home


def prove_streams(cursor: extensions.cursor, definition: PipelineDefinition, home: Home, progress: Progress) -> Proof:
    """Compare all landed events of all streams with the warehouse, and with the state of their join.

    Args:
        cursor: in a transaction that sees one state of the warehouse.
        definition: the pipeline, whose facts are made when all parts are there.
        home: the installation, with landing folders and state.
        progress: is told of the files that are read.

    Raises:
        SchemaMismatchError: a table of the pipeline is missing in the warehouse.
    """
    assert definition.streams is not None
    assert definition.correlate is not None
    findings = Findings()
    # The snapshot first, then the state and the landing: what is loaded has landed.
    streams = [StagedStream(cursor, definition, number, name) for number, name in enumerate(definition.streams)]
    join = StreamJoin(cursor, definition.correlate, streams)
    joined = JoinedEvents(cursor, definition, join)
    stored = StoredTuples.of_join(cursor, definition.name)
    held = HeldTuples(cursor, stored, definition.source, join.object_codes)
    ids = [stream.ids(joined.key_types, coded=held.has_objects) for stream in streams]
    stage_waiting(cursor, definition, home.join_state(definition.name), list(zip(streams, ids, strict=True)), findings)
    accounts = []
    for stream, of_stream in zip(streams, ids, strict=True):
        landing = Landing.of(definition.name, stream.source, home, stream.prefix)
        accounts.append(Account(cursor, landing, stream.source, of_stream, stream.staging, findings))
        accounts[-1].read(progress)
    progress.add_task("comparing", total=None)
    join.make(accounts)
    lacking = [stream for stream, account in zip(streams, accounts, strict=True) if account.absent.units]
    comparison = Comparison(cursor, definition, joined, stored, join, findings, may_be_absent(lacking, joined))
    comparison.find_unstored()
    comparison.in_two_places()
    held_results = HeldComparison(cursor, stored, LANDED, join.absent, findings)
    held_results.extra()
    comparison.wrong_facts()
    held_results.payloads()
    held_results.rejected(joined.can_match)

    compared, places = [held_results], []
    for stream, account in zip(streams, accounts, strict=True):
        held_events = HeldComparison(cursor, stream.stored, stream.landed, account.absent, findings)
        held_events.extra()
        held_events.payloads()
        held_events.rejected(stream.can_match)
        compared.append(held_events)
        standings = Standings(cursor, stream, account, joined, stored, findings)
        standings.check()
        places.append(standings.places())
        if not account.absent.units:
            check_stream(cursor, definition.name, places[-1], findings)
    report_missing_results(cursor, streams, join.labels, findings)
    counts: dict[str, int] = {
        place: sum(each.held[place] + each.pruned[place] for each in compared) for place in PLACES
    }
    check_sums(cursor, definition.name, {"facts": comparison.facts, **counts}, findings)
    check_batches(cursor, definition.name, findings)
    return Proof(
        pipeline=definition.name,
        files=len(join.labels),
        pending_files=sum(account.pending_files for account in accounts),
        records=sum(account.records for account in accounts),
        pending_records=sum(stream.pending for stream in places),
        facts=comparison.facts,
        shed=held_results.held["shed"],
        unmatched=held_results.held["unmatched"],
        rejected=held_results.held["rejected"],
        pruned=held_results.pruned.total(),
        resolvable=comparison.resolvable(),
        unchecked=held_results.unchecked,
        former=comparison.explained.former,
        unprovable=comparison.explained.unprovable + comparison.gone,
        gone_facts=comparison.gone,
        gone_held=sum(each.gone for each in compared),
        differences=findings.of(DIFFERENCES),
        notes=findings.of(NOTES),
        streams=tuple(places),
    )
