"""JSON: a record is an object, on a line of a file or in a message."""

from __future__ import annotations

from spark_jobs.definition.formats.base import FormatFacts


class _Json(FormatFacts):
    name = held_as = "json"
    borne_by = frozenset({"files", "messages"})


JSON = _Json()
