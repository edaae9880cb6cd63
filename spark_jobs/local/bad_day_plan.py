"""What a bad day is to be like: its phases, its burst, and pipelines with little memory and few reads of R.

With 64 MB for a join all of a small TPC-H's master data is hot soon, and R is never read: no stream is too fast then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_jobs.errors import PlatformError
from spark_jobs.local.changed_pipelines import write_changed_pipelines

DEFAULT_DURATION = timedelta(seconds=300)
SHORTEST_DURATION = timedelta(seconds=120)
SMALLEST_FACTOR, LARGEST_FACTOR = 1.5, 10.0


@dataclass(frozen=True)
class Overload:
    """What the day is to be like.

    Attributes:
        factor: the burst's rate as a multiple of the capacity.
        duration: of the day, but for the time that the backlog may take beyond it.

    Raises:
        PlatformError: a value is out of range.
    """

    factor: float
    duration: timedelta = DEFAULT_DURATION

    def __post_init__(self) -> None:
        if not SMALLEST_FACTOR <= self.factor <= LARGEST_FACTOR:
            raise PlatformError(
                f"An overload of {self.factor:g}x is not a bad day. Give {SMALLEST_FACTOR:g}x to {LARGEST_FACTOR:g}x: "
                "the burst's rate as a multiple of what the streams can carry."
            )
        if self.duration < SHORTEST_DURATION:
            raise PlatformError(
                f"{self.duration.total_seconds():g} s are too short for a bad day: the streams' capacity has to "
                f"be measured first. Give --for {SHORTEST_DURATION.total_seconds():g}s or more."
            )

    def at(self, share: float) -> float:
        """Seconds from the day's start after this share of it."""
        return share * self.duration.total_seconds()


WARM_UP_RATE = 0.25
"""The day begins with this share of the calm rate: front stages are empty, and every tuple is read from R."""

# Shares of the day. The capacity is measured between late orders and burst: before that, front stages fill up.
# The dimension changes in the middle of the day, which lies in the burst.
WARM_AT, LATE_ORDERS_AT, BURST_AT, CHANGE_AT, BURST_ENDS_AT = 0.1, 0.25, 0.35, 0.5, 0.55


@dataclass(frozen=True)
class Scarcity:
    """What a lookup gets on such a day, of TPC-H with scale 0.1. Other scales get as much in proportion.

    Attributes:
        memory_kilobytes: memory of the join.
        read_limit: tuples of R a second.
    """

    memory_kilobytes: int
    read_limit: int

    def at(self, scale: float) -> dict[str, Any]:
        """The keys of the lookup that say it."""
        share = scale / TUNED_SCALE
        return {
            # By single keys: under a limit a page costs all the tuples that are on it.
            "algorithm": "auto",
            "memory": f"{max(round(self.memory_kilobytes * share), SMALLEST_KILOBYTES)}kB",
            "read_limit": f"{self.read_limit}/s",
        }


TUNED_SCALE = 0.1
SMALLEST_SCALE = 0.05
SMALLEST_KILOBYTES = 128

LOOKUPS = {
    "master.customer": Scarcity(memory_kilobytes=176, read_limit=150),
    "master.part": Scarcity(memory_kilobytes=176, read_limit=400),
    "master.supplier": Scarcity(memory_kilobytes=256, read_limit=1000),
}
# A day of minutes can't wait as long as one of hours.
SOONER: dict[str, dict[str, str]] = {"validation": {"every": "2m"}, "reprocessing": {"first_pause": "15s"}}


def write_overload_pipelines(pipelines: Path, folder: Path, scale: float) -> None:
    """Write the definitions of a folder as they are to be under overload; those of other relations stay as they are.

    Pipelines of several streams are left out: they don't shed, so that all their events would be late.

    Args:
        pipelines: the folder of the definitions.
        folder: where to; definitions of former days are removed.
        scale: TPC-H scale factor of the master data.

    Raises:
        PlatformError: the scale is so small that all of R is hot with any memory.
        PipelineDefinitionError: a definition can't be read.
    """
    if scale < SMALLEST_SCALE:
        raise PlatformError(
            f"Scale {scale:g} is too small for an overload: all its customers and parts fit into a few kilobytes, and "
            f"nothing would ever be read from master data. Give {SMALLEST_SCALE:g} or more."
        )
    write_changed_pipelines(pipelines, folder, lambda _, content: under_overload(content, scale), "--overload")


def under_overload(definition: dict[str, Any], scale: float) -> dict[str, Any] | None:
    """A definition, as its YAML file has it, under overload; None where it joins several streams."""
    if "streams" in definition:
        return None
    lookups = [
        lookup | LOOKUPS[lookup["relation"]].at(scale) if lookup.get("relation") in LOOKUPS else lookup
        for lookup in definition.get("lookups", [])
    ]
    sooner = {part: definition.get(part, {}) | keys for part, keys in SOONER.items()}
    return definition | {"lookups": lookups} | sooner
