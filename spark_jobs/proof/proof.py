"""What a proof found: counts, and every difference with the first ids that show it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spark_jobs.definition.fates import OPEN_SHARES
from spark_jobs.shown_text import shown_line

EXAMPLES = 10
_LONGEST_VALUE = 80


@dataclass(frozen=True)
class Finding:
    """Something that a proof found.

    Attributes:
        kind: short name, for programs: one of `DIFFERENCES` or `NOTES`.
        count: how many events, files or batches show it.
        examples: the first of them, with what is wrong.
    """

    kind: str
    count: int
    examples: tuple[str, ...]


class Findings:
    """Findings of several kinds on their way, of which only the first examples are kept."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, example: str) -> None:
        """Count one more."""
        self._counts[kind] += 1
        if len(self._examples[kind]) < EXAMPLES:
            self._examples[kind].append(example)

    def put(self, kind: str, count: int, examples: Iterable[str]) -> None:
        """Add several at once, if there are any; the examples are looked at only then."""
        if count:
            self._counts[kind] += count
            self._examples[kind] += examples

    def of(self, kinds: Iterable[str]) -> tuple[Finding, ...]:
        """Those of these kinds, in that order."""
        return tuple(
            Finding(kind, self._counts[kind], tuple(self._examples[kind])) for kind in kinds if self._counts[kind]
        )


DIFFERENCES = {
    "passed_over": "files that were not loaded although later ones were",
    "missing": "landed and committed, but stored nowhere",
    "in_two_places": "in two places: a fact, waiting, held, or pruned",
    "missing_result": "results of the streams' join that are stored nowhere",
    "extra_fact": "facts that never landed, or that the streams' join does not give",
    "extra_waiting": "tuples that wait in the state and never landed",
    "extra_held": "held tuples that never landed",
    "fact_key": "facts that nothing keeps from being stored twice: their table has lost its key",
    "wrong_fact": "facts that are not what the join makes of the landed event",
    "wrong_payload": "held tuples whose payload is not the landed record",
    "wrongly_rejected": "rejected tuples of which the reason does not hold",
    "arrived": "ranges of files that hold another number of records than the ledger says",
    "balance": "batches in which what arrived is not what became of it",
    "ledger": "sums of the ledger that are not what is stored",
    "state": "buckets of the join's state that can't be read: what waits in them is missing",
}
"""Ways in which the warehouse is not what the landed events make it, in words."""

NOTES = {
    "changed": "files were changed after they were loaded: what was loaded of them can't be proved",
    "unreadable": "files can't be read",
    "set_aside": "ranges of files were set aside: nothing of them is loaded",
    "readable": "records were rejected that the definition can read by now: `freshet requeue` has them read again",
    "lost": "ranges of files were given up: the files were gone before they were read",
    "gone": "loaded files, or ranges of topics, are not in the pipeline's source any more",
}
"""What is not a difference, but worth reporting, in words."""


@dataclass(frozen=True)
class StreamPlaces:
    """Where the events of one of several streams are.

    arrived = in_result + waiting + expired + rejected + pruned + duplicates, but for those that are missing.

    Attributes:
        stream: its name.
        files: landed files that were read.
        arrived: records that are loaded.
        in_result: events in at least one fact, or held joined tuple.
        waiting: in the state after the last committed batch, in no result yet.
        expired: held, or rejected, since they found no partner in their time.
        rejected: held for other reasons.
        late: those of them that came too late.
        pruned: that were held, and were deleted since, by retention or by hand.
        duplicates: records of events that had landed before.
        pending: records that are not loaded yet.
        after_last: those of the rejected that came after the last of their key.
    """

    stream: str
    files: int
    arrived: int
    in_result: int
    waiting: int
    expired: int
    rejected: int
    late: int
    pruned: int
    duplicates: int
    pending: int
    after_last: int = 0


@dataclass(frozen=True)
class Proof:
    """The tuple's law and the facts of one pipeline, compared with all landed events.

    Attributes:
        pipeline: its name.
        files: landed files that were read.
        pending_files: those that are not loaded yet, or not to their end.
        records: landed records, those sent more than once counted each time.
        pending_records: records that are not loaded yet, nor stored; not a difference.
        duplicates: records of events that other records have brought as well; not a difference.
        facts, shed, unmatched, rejected: stored events by place.
        pruned: events that were held, and were deleted since, by retention or by hand; not a difference.
        resolvable: unmatched events whose master data is there by now; not a difference.
        unchecked: rejected events whose reason can't be checked without trying to store them; not a difference.
        former: facts that equal the join with R as it was when they were loaded, not as it is now; not a difference.
        unprovable: facts about which nothing can be proved: they do not equal the join with R as it is now, while it is
            not known how R was when they were loaded; or their landed records are there no longer. Not a difference.
        gone_facts, gone_held: facts and held tuples whose landed records are there no longer; not a difference.
        read_again: tuples that are held as they could not be read once, and are facts by now: their definition was
            corrected, and their file read again. Not a difference.
        differences: what does not hold; empty if all does.
        notes: what is not a difference, but worth reporting.
        streams: of a pipeline that joins several streams, where the events of each are; shed, unmatched, rejected and
            pruned are joined tuples then.
        seconds: how long the proof took.
    """

    pipeline: str
    files: int
    pending_files: int
    records: int
    pending_records: int
    duplicates: int
    facts: int
    shed: int
    unmatched: int
    rejected: int
    pruned: int
    resolvable: int
    unchecked: int
    former: int
    unprovable: int
    gone_facts: int
    gone_held: int
    differences: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    streams: tuple[StreamPlaces, ...] = ()
    read_again: int = 0
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether every event is in exactly one place, and every fact that can be proved is right."""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain values, for JSON."""
        return {"holds": self.holds, **asdict(self)}

    def to_json(self) -> str:
        """The proof as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def render(self) -> RenderableType:
        """The proof for the terminal: the balance, then every difference with its examples."""
        balance = Table.grid(padding=(0, 2))
        balance.add_column()
        balance.add_column(justify="right")
        for row in self._results_of_streams() if self.streams else self._stored_of_landed():
            balance.add_row(*row)
        balance.add_row("= facts", f"{self.facts:,}")
        if self.former:
            balance.add_row("", f"{self.former:,}", "of them equal their master data as it was when they were loaded")
        if unknown := self.unprovable - self.gone_facts:
            hint = "of them can't be proved: how their master data was then is not known any more"
            balance.add_row("", f"{unknown:,}", hint)
        if self.gone_facts:
            balance.add_row(
                "", f"{self.gone_facts:,}", "of them can't be proved: their records are not in the source any more"
            )
        balance.add_row("+ shed", f"{self.shed:,}")
        hint = f"{self.resolvable:,} of them have their master data by now" if self.resolvable else ""
        balance.add_row("+ unmatched", f"{self.unmatched:,}", hint)
        hint = f"{self.unchecked:,} of them for reasons that only PostgreSQL can check" if self.unchecked else ""
        balance.add_row("+ rejected", f"{self.rejected:,}", hint)
        if self.gone_held:
            balance.add_row(
                "", f"{self.gone_held:,}", "of these three are held of records that are not in the source any more"
            )
        if self.pruned:
            balance.add_row("+ pruned", f"{self.pruned:,}", "held once, and deleted: by retention, or by hand")
        parts: list[RenderableType] = [self._streams_table(), balance] if self.streams else [balance]
        for note in self.notes:
            parts += _shown(note, NOTES[note.kind], "yellow")
        for difference in self.differences:
            parts += _shown(difference, DIFFERENCES[difference.kind], "red")
        verdict = "holds" if self.holds else "does not hold"
        style = "bold green" if self.holds else "bold red"
        text = f"{self.pipeline}: the tuple's law {verdict} ({self.seconds:.1f} s)"
        return Group(*parts, Text(text, style=style))

    @property
    def _stored(self) -> int:
        return self.facts + self.shed + self.unmatched + self.rejected + self.pruned

    def _stored_of_landed(self) -> Iterator[tuple[str, str, str]]:
        """How the records that landed become what is stored: rows that sum up, whether the law holds or not."""
        yield "landed", f"{self.records:,}", f"records in {self.files:,} files or partitions"
        missing = sum(difference.count for difference in self.differences if difference.kind == "missing")
        otherwise = self._stored - (self.records - self.duplicates - self.pending_records - missing)
        unlanded = otherwise - self.read_again
        if self.duplicates:
            yield "- duplicates", f"{self.duplicates:,}", "of events that other records have brought"
        if self.pending_files:
            yield "- not yet loaded", f"{self.pending_records:,}", f"in {self.pending_files:,} files"
        if missing:
            yield "- missing", f"{missing:,}", "stored nowhere"
        if self.read_again:
            yield "+ read again", f"{self.read_again:,}", "facts by a corrected definition, and still held as rejected"
        if unlanded:
            yield "+ not landed", f"{unlanded:,}", "stored, but no record of the source is theirs alone"
        yield "stored", f"{self._stored:,}", ""

    def _results_of_streams(self) -> Iterator[tuple[str, str, str]]:
        yield "results", f"{self._stored:,}", f"of {self.records:,} records in {self.files:,} files or partitions"
        if self.pending_files:
            yield "not yet loaded", f"{self.pending_records:,}", f"in {self.pending_files:,} files"

    def _streams_table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("stream")
        heads: dict[str, str] = {
            "arrived": "arrived",
            "in_result": "= in a result",
            **{share: f"+ {share}" for share in OPEN_SHARES},
            "late": "(late)",
            "after_last": "(after the last)",
            "pruned": "+ pruned",
            "duplicates": "+ duplicates",
            "pending": "not yet loaded",
        }
        for head in heads.values():
            table.add_column(head, justify="right")
        for stream in self.streams:
            table.add_row(stream.stream, *(f"{getattr(stream, name):,}" for name in heads))
        table.add_row()
        return table


def _shown(finding: Finding, words: str, style: str) -> Iterator[Text]:
    yield Text(f"{finding.count:,} {words}:", style=style)
    yield from (Text(f"  {shown_line(example)}") for example in finding.examples)
    if finding.count > len(finding.examples):
        yield Text("  ...")


def shortened(value: str | None) -> str:
    """A value as it is shown."""
    if value is None:
        return "null"
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
