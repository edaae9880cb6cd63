"""Pipelines for a day with overload: the same as ever, but with little memory, and an R that is read sparingly.

With 64 MB for a join all of a small TPC-H's master data is hot soon, and R is never read: no stream is too fast then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spark_jobs.definition import definition_files
from spark_jobs.definition.problems import read_yaml
from spark_jobs.errors import PlatformError


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
    "master.customer": Scarcity(memory_kilobytes=512, read_limit=150),
    "master.part": Scarcity(memory_kilobytes=512, read_limit=400),
    "master.supplier": Scarcity(memory_kilobytes=256, read_limit=1000),
}
# A day of minutes can't wait as long as one of hours.
SOONER: dict[str, dict[str, str]] = {"validation": {"every": "2m"}, "reprocessing": {"first_pause": "15s"}}


def write_overload_pipelines(pipelines: Path, folder: Path, scale: float) -> None:
    """Write the definitions of a folder as they are to be under overload; those of other relations stay as they are.

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
    folder.mkdir(parents=True, exist_ok=True)
    for former in definition_files(folder):
        former.unlink()
    for path in definition_files(pipelines):
        told = f"# Written by `freshet up --overload` after {path}; changes are overwritten.\n"
        scarce = yaml.safe_dump(under_overload(read_yaml(path), scale), sort_keys=False)
        (folder / path.name).write_text(told + scarce)


def under_overload(definition: dict[str, Any], scale: float) -> dict[str, Any]:
    """A definition, as its YAML file has it, under overload."""
    lookups = [
        lookup | LOOKUPS[lookup["relation"]].at(scale) if lookup.get("relation") in LOOKUPS else lookup
        for lookup in definition.get("lookups", [])
    ]
    sooner = {part: definition.get(part, {}) | keys for part, keys in SOONER.items()}
    return definition | {"lookups": lookups} | sooner
