"""How the newest batch made its lookups, and why in this way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.ledger.status.ledger_reading import ClosedBatch


@dataclass(frozen=True)
class LookupStatus:
    """How the newest batch made one lookup, and why in this way."""

    relation: str
    algorithm: str | None
    reason: str | None


def lookups_of(newest: ClosedBatch | None) -> tuple[LookupStatus, ...]:
    """The lookups of a batch, if there is one."""
    made = (newest.lookups if newest else None) or []
    return tuple(LookupStatus(lookup["relation"], lookup.get("algorithm"), _reason(lookup)) for lookup in made)


def _reason(lookup: Mapping[str, Any]) -> str | None:
    """Why `auto` came to its algorithm; where nothing had to be read it chose none, and stays `auto`."""
    told: str | None = lookup.get("reason")
    if lookup.get("algorithm") != "auto" or lookup.get("asked"):
        return told
    why = "every key was hot" if lookup.get("hits") else "no tuple asked for it"
    return "; ".join(filter(None, [f"nothing to choose in the newest batch: {why}", told]))
