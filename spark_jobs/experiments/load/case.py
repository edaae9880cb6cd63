"""What is loaded in a run: how large R is, what is fetched of it, the memory for that, what else happens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

CORES = len(os.sched_getaffinity(0))
EVENTS_PER_FILE = 100_000
_NARROW = {"relation_sk": "sk"}
_WIDE = {"relation_sk": "sk", "relation_class": "class", "relation_label": "label"}
_WIDTHS = {"sk": 8, "class": 4, "label": 14}  # of labels on average, their lengths left out
_KEY_BYTES = 8


@dataclass(frozen=True)
class LoadCase:
    """One case of the benchmark.

    Attributes:
        regime: one of REGIMES.
        relation_rows: tuples of R.
        events: stream tuples that are measured.
        memory_bytes: what a contender may keep of R's needed columns.
        cores: those that the contender and the server may use.
        warm_up: stream tuples before the measured ones, loaded but not measured.
        exponent: Zipf exponent of the keys.
    """

    regime: str
    relation_rows: int
    events: int
    memory_bytes: int
    cores: int
    warm_up: int = 600_000
    exponent: float = 1.0

    @property
    def label(self) -> str:
        """The case in a few words."""
        memory = f"{self.memory_bytes / 2**20:,.4g} MB"
        return f"R = {self.relation_rows:,}, {self.regime}, {memory}, {self.cores} core{'s' * (self.cores > 1)}"

    @property
    def is_wide(self) -> bool:
        """Whether three columns are fetched of 260-byte tuples, instead of one of 134-byte tuples."""
        return self.regime == "wide"

    @property
    def is_changing(self) -> bool:
        """Whether R changes meanwhile, keys are missing in it, and events come twice."""
        return self.regime == "changing"

    @property
    def relation(self) -> str:
        """Name of R's table in schema `bench`. One that changes is another than one that stays."""
        kind = {"wide": "wide_", "changing": "changing_"}.get(self.regime, "")
        return f"relation_{kind}{self.relation_rows}"

    @property
    def events_folder(self) -> str:
        """Name of the folder of its event files."""
        return f"events-{'changing-' if self.is_changing else ''}{self.relation_rows}"

    @property
    def all_events(self) -> int:
        """Stream tuples of a run."""
        return self.warm_up + self.events

    @property
    def fetched(self) -> dict[str, str]:
        """Column of the fact table -> column of R."""
        return _WIDE if self.is_wide else _NARROW

    @property
    def needed_bytes(self) -> int:
        """Bytes of R's key and fetched columns, without what any way of keeping them adds."""
        return needed_bytes(self.regime, self.relation_rows)

    @property
    def fits(self) -> bool:
        """Whether the needed columns fit into the memory."""
        return self.needed_bytes <= self.memory_bytes


def needed_bytes(regime: str, relation_rows: int) -> int:
    """As `LoadCase.needed_bytes`."""
    fetched = _WIDE if regime == "wide" else _NARROW
    return relation_rows * (_KEY_BYTES + sum(_WIDTHS[column] for column in fetched.values()))


def usual_memory(regime: str, relation_rows: int) -> int:
    """What a contender may keep of R where nothing else is said.

    64 MB for 2 million tuples and 256 MB for 10 million hold all that is needed; of the regime `tenth` a tenth of the
    needed columns fits, and of the regime `wide` what fits into 256 MB.
    """
    if regime == "wide":
        return 256 << 20
    if regime == "tenth":
        return needed_bytes(regime, relation_rows) // 10
    return max(64 << 20, round((256 << 20) * relation_rows / 10_000_000))


def cases(
    regimes: Sequence[str], relation_rows: Sequence[int], cores: Sequence[int], events: int, memory_bytes: int | None
) -> list[LoadCase]:
    """Every combination of these.

    Raises:
        ValueError: there is no such regime, or there are fewer cores; the message says what is allowed.
    """
    if unknown := [regime for regime in regimes if regime not in REGIMES]:
        raise ValueError(f"{unknown[0]!r} is no regime. Allowed: {', '.join(REGIMES)}.")
    if most := [count for count in cores if not 1 <= count <= CORES]:
        raise ValueError(f"{most[0]} cores were asked for; this process may use 1 to {CORES}.")
    return [
        LoadCase(regime, rows, events, memory_bytes or usual_memory(regime, rows), count)
        for regime, rows, count in product(regimes, relation_rows, cores)
    ]


REGIMES = {
    "fits": "all needed columns of R fit into the memory",
    "tenth": "a tenth of them fits",
    "wide": "three columns are fetched, one of them text, into 256 MB",
    "changing": "R changes 1,000 times a second, 5 % of the keys are not in it, 1 % of the events come twice",
}
