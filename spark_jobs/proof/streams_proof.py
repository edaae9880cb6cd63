"""The proof of a pipeline that joins several streams: of its facts, and of each stream's law.

The joined tuples are made here by SQL, of all landed events but those that were rejected as late, or as coming after
the last of their key. Facts, and joined tuples that are held, are compared with them as with the events of one source.
Facts that accumulate are compared with the events that they name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from psycopg2 import extensions, sql
from rich.progress import Progress

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import PLACES
from spark_jobs.definition.shapes import AccumulatedStreams, JoinedStreams
from spark_jobs.proof.account import Account
from spark_jobs.proof.accumulated_facts import AccumulatedParts
from spark_jobs.proof.after_last import check_after_last
from spark_jobs.proof.comparison import Comparison
from spark_jobs.proof.held import HeldTuples
from spark_jobs.proof.held_comparison import HeldComparison
from spark_jobs.proof.ledger_sums import check_batches, check_sums
from spark_jobs.proof.parts_together import PartsTogether
from spark_jobs.proof.proof import DIFFERENCES, NOTES, Findings, Proof, StreamPlaces
from spark_jobs.proof.staged_events import LANDED
from spark_jobs.proof.staged_stream import StagedStream
from spark_jobs.proof.stored_tuples import StoredTuples
from spark_jobs.proof.stream_join import StreamJoin
from spark_jobs.proof.stream_ledger import check_stream
from spark_jobs.proof.stream_places import Standings, may_be_absent, report_missing_results
from spark_jobs.proof.waiting import stage_waiting
from spark_jobs.settings import Home
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.kinds import kind_of
from spark_jobs.source.slice_reading import SliceReader


def prove_joined(
    cursor: extensions.cursor, definition: PipelineDefinition, shape: JoinedStreams, home: Home, progress: Progress
) -> Proof:
    """Compare all landed events of streams that are joined with the warehouse, and with the state of their join.

    Args:
        cursor: in a transaction that sees one state of the warehouse.
        definition: the pipeline.
        shape: its streams and their join.
        home: the installation, with landing folders and state.
        progress: is told of the files that are read.

    Raises:
        SchemaMismatchError: a table of the pipeline is missing in the warehouse.
    """
    return _JoinedProof(cursor, definition, shape, home).run(progress)


def prove_accumulated(
    cursor: extensions.cursor, definition: PipelineDefinition, shape: AccumulatedStreams, home: Home, progress: Progress
) -> Proof:
    """Compare all landed events of streams whose parts fill one fact with the warehouse; as of `prove_joined`."""
    return _AccumulatedProof(cursor, definition, shape, home).run(progress)


class _StreamsProof(ABC):
    def __init__(
        self,
        cursor: extensions.cursor,
        definition: PipelineDefinition,
        home: Home,
        streams: list[StagedStream],
        join: PartsTogether,
    ) -> None:
        self._cursor = cursor
        self._definition = definition
        self._home = home
        self._findings = Findings()
        self._streams = streams
        self._join = join
        self._stored = StoredTuples.of_join(cursor, definition.name)
        self._held = HeldTuples(cursor, self._stored, definition.tuples, join.object_codes)
        types = join.facts.loaded_types
        self._ids = [stream.ids(types, coded=self._held.has_objects) for stream in streams]

    @abstractmethod
    def _stage_waiting(self) -> list[sql.Identifier]:
        """Stage the events that wait, of each stream; gives the names of its tuples that are held and don't wait."""

    @abstractmethod
    def _check_streams(self, accounts: list[Account]) -> None:
        """Check what events of this shape alone may be held for."""

    def run(self, progress: Progress) -> Proof:
        """Stage and compare everything."""
        cursor, definition, findings, join = self._cursor, self._definition, self._findings, self._join
        held_elsewhere = self._stage_waiting()
        accounts = self._read(progress)
        progress.add_task("comparing", total=None)
        join.make(accounts)
        if self._held.digests:
            join.know_by_digest(self._stored.kept)
        absent = may_be_absent(join.lacking, join.facts)
        comparison = Comparison(cursor, definition, join.facts, self._stored, join, findings, absent)
        comparison.find_unstored()
        comparison.in_two_places()
        held = HeldComparison(cursor, self._stored, LANDED, join.absent, findings)
        held.extra()
        comparison.wrong_facts()
        held.payloads()
        held.rejected(join.facts.can_match)
        compared, places = [held], []
        for stream, account, elsewhere in zip(self._streams, accounts, held_elsewhere, strict=True):
            compared.append(self._compare_held(stream, account))
            places.append(self._compare_places(stream, account, elsewhere))
        self._check_streams(accounts)
        report_missing_results(cursor, self._streams, join.labels, findings)
        counts: dict[str, int] = {
            place: sum(each.held[place] + each.pruned[place] for each in compared) for place in PLACES
        }
        check_sums(cursor, definition.name, {"facts": comparison.facts, **counts}, findings)
        check_batches(cursor, definition.name, findings)
        held_counts: dict[str, Any] = {place: held.held[place] for place in PLACES}
        return Proof(
            pipeline=definition.name,
            files=len(join.labels),
            pending_files=sum(account.pending_files for account in accounts),
            records=sum(account.records for account in accounts),
            pending_records=sum(stream.pending for stream in places),
            duplicates=sum(stream.duplicates for stream in places),
            facts=comparison.facts,
            **held_counts,
            pruned=held.pruned.total(),
            resolvable=comparison.resolvable(),
            unchecked=held.unchecked,
            former=comparison.explained.former,
            unprovable=comparison.explained.unprovable + comparison.gone,
            gone_facts=comparison.gone,
            gone_held=sum(each.gone for each in compared),
            differences=findings.of(DIFFERENCES),
            notes=findings.of(NOTES),
            streams=tuple(places),
        )

    def _read(self, progress: Progress) -> list[Account]:
        accounts = []
        for stream, ids in zip(self._streams, self._ids, strict=True):
            read = SourceStream(self._definition.name, stream.source, self._home, stream.name)
            landing = kind_of(stream.source).landing(read, self._cursor)
            account = Account(landing, SliceReader.of_stream(read), ids, stream.staging, self._findings)
            account.read(progress)
            accounts.append(account)
        return accounts

    def _compare_held(self, stream: StagedStream, account: Account) -> HeldComparison:
        held = HeldComparison(self._cursor, stream.stored, stream.landed, account.absent, self._findings)
        held.extra()
        held.payloads()
        held.rejected(stream.can_match)
        return held

    def _compare_places(self, stream: StagedStream, account: Account, elsewhere: sql.Identifier) -> StreamPlaces:
        facts = self._join.facts
        standings = Standings(self._cursor, stream, account, elsewhere, facts, self._stored, self._findings)
        standings.check()
        places = standings.places()
        if not account.absent.units:
            check_stream(self._cursor, self._definition.name, places, self._findings)
        return places


class _JoinedProof(_StreamsProof):
    def __init__(
        self, cursor: extensions.cursor, definition: PipelineDefinition, shape: JoinedStreams, home: Home
    ) -> None:
        self._shape = shape
        join = shape.join
        # The snapshot first, then the state and the landing: what is loaded has landed.
        streams = [
            StagedStream(
                *(cursor, definition, number, name),
                match=join.match,
                besides=[column for told_by, column in join.punctuation_columns if told_by == name],
            )
            for number, name in enumerate(shape.streams)
        ]
        super().__init__(cursor, definition, home, streams, StreamJoin(cursor, definition, join, streams))

    def _stage_waiting(self) -> list[sql.Identifier]:
        folder = self._home.join_state(self._definition.name)
        by_id = list(zip(self._streams, self._ids, strict=True))
        stage_waiting(self._cursor, self._definition.name, self._shape, folder, by_id, self._findings)
        return [stream.stored.held for stream in self._streams]

    def _check_streams(self, accounts: list[Account]) -> None:
        check_after_last(self._cursor, self._shape.join, self._streams, accounts, self._findings)


class _AccumulatedProof(_StreamsProof):
    def __init__(
        self, cursor: extensions.cursor, definition: PipelineDefinition, shape: AccumulatedStreams, home: Home
    ) -> None:
        streams = [StagedStream(cursor, definition, number, name) for number, name in enumerate(shape.streams)]
        self._parts = AccumulatedParts(cursor, definition, shape, streams)
        super().__init__(cursor, definition, home, streams, self._parts)

    def _stage_waiting(self) -> list[sql.Identifier]:
        return [self._parts.stage_waiting(stream) for stream in self._streams]

    def _check_streams(self, accounts: list[Account]) -> None:
        for stream in self._streams:
            self._parts.check_waiting(stream, self._findings)
