"""A source has the keys of all kinds and formats that are registered."""

from __future__ import annotations

import pytest

from spark_jobs.definition import Source
from spark_jobs.definition.fields import Part
from spark_jobs.definition.formats import FORMATS, FormatFacts
from spark_jobs.definition.source import take_registered

JSON = {
    "format": "json",
    "path": "/landing",
    "schema": "id bigint, at timestamp",
    "event_id": ["id"],
    "event_time": "at",
}


class Proto(Part):
    descriptor: str


class ProtoFacts(FormatFacts):
    name = held_as = "proto"
    borne_by = frozenset({"files"})
    key = "proto"
    settings = Proto
    lacking = "is missing."


def stored(content: dict[str, object]) -> dict[str, object]:
    return Source.model_validate(content).model_dump(mode="json", by_alias=True)


def test_a_format_that_comes_later_leaves_stored_definitions_of_other_formats_as_they_are() -> None:
    """What their batches were read as is told by these."""
    before = stored(JSON)
    with pytest.MonkeyPatch.context() as lines:
        lines.setitem(FORMATS, "proto", ProtoFacts())
        take_registered()
        assert stored(JSON) == before
        of_its_own = stored(JSON | {"format": "proto", "proto": {"descriptor": "events.desc"}})
        assert of_its_own["proto"] == {"descriptor": "events.desc"}
    take_registered()
    assert stored(JSON) == before
