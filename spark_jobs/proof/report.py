"""What a proof found: counts, and every difference with the first ids that show it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

EXAMPLES = 10


@dataclass(frozen=True)
class Difference:
    """One way in which the warehouse is not what the landed events make it.

    Attributes:
        kind: short name, for programs: one of `KINDS`.
        count: how many events show it.
        examples: the first of them, with what is wrong.
    """

    kind: str
    count: int
    examples: tuple[str, ...]


KINDS = {
    "missing": "landed and committed, but stored nowhere",
    "in_two_places": "in two places: a fact, held, or pruned",
    "extra_fact": "facts that never landed",
    "extra_held": "held tuples that never landed",
    "wrong_fact": "facts that are not what the join makes of the landed event",
    "lost_payload": "rejected tuples whose raw record was not kept",
    "ledger": "sums of the ledger that are not what is stored",
}


@dataclass(frozen=True)
class Proof:
    """The tuple's law and the facts of one pipeline, compared with all landed events.

    Attributes:
        pipeline: its name.
        files: landed files.
        pending_files: those that no committed batch has read yet.
        records: landed records, those sent more than once counted each time; an unreadable file counts as one.
        pending_records: records of pending files that are not stored yet; not a difference.
        facts, shed, unmatched, rejected: stored events by place.
        pruned: events that were held until retention deleted them; not a difference.
        resolvable: unmatched events whose master data is there by now; not a difference.
        former: facts that equal the join with R as it was when they were loaded, not as it is now; not a difference.
        unprovable: facts that do not equal the join with R as it is now, while it is not known how R was when they were
            loaded; not a difference.
        differences: what does not hold; empty if all does.
        seconds: how long the proof took.
    """

    pipeline: str
    files: int
    pending_files: int
    records: int
    pending_records: int
    facts: int
    shed: int
    unmatched: int
    rejected: int
    pruned: int
    resolvable: int
    former: int
    unprovable: int
    differences: tuple[Difference, ...]
    seconds: float

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
        stored = self.facts + self.shed + self.unmatched + self.rejected + self.pruned
        balance.add_row("stored", f"{stored:,}", f"of {self.records:,} records in {self.files:,} files")
        balance.add_row("= facts", f"{self.facts:,}")
        if self.former:
            balance.add_row("", f"{self.former:,}", "of them equal their master data as it was when they were loaded")
        if self.unprovable:
            hint = "of them can't be proved: how their master data was then is not known any more"
            balance.add_row("", f"{self.unprovable:,}", hint)
        balance.add_row("+ shed", f"{self.shed:,}")
        hint = f"{self.resolvable:,} of them have their master data by now" if self.resolvable else ""
        balance.add_row("+ unmatched", f"{self.unmatched:,}", hint)
        balance.add_row("+ rejected", f"{self.rejected:,}")
        if self.pruned:
            balance.add_row("+ pruned", f"{self.pruned:,}", "held, until their time of retention was over")
        if self.pending_files:
            balance.add_row("not yet loaded", f"{self.pending_records:,}", f"in {self.pending_files:,} files")
        parts: list[RenderableType] = [balance]
        for difference in self.differences:
            parts.append(Text(f"{difference.count:,} {KINDS[difference.kind]}:", style="red"))
            parts += [Text(f"  {example}") for example in difference.examples]
            if difference.count > len(difference.examples):
                parts.append(Text("  ..."))
        verdict = "holds" if self.holds else "does not hold"
        style = "bold green" if self.holds else "bold red"
        text = f"{self.pipeline}: the tuple's law {verdict} ({self.seconds:.1f} s)"
        return Group(*parts, Text(text, style=style))
