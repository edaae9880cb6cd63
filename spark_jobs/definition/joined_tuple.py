"""How tuples of several streams are called, and what joined tuples have besides the columns of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.definition import Source

COMPLETED_AT = "_completed_at"
"""Column of joined tuples: when the last of their events happened. Their freshness is measured from it."""
JOINED_ID = "_joined_id"
"""Column of joined tuples of which some lack parts (`expired: emit`): the ids of their events as text, `[17,null]`.

It is their key: a primary key takes no nulls.
"""
# The id of a stream's held tuple, and the name of its file in the ledger, begin with the stream's name and this.
STREAM_SEPARATOR = "/"


def qualified(stream: str, column: str) -> str:
    """Name of a stream's column in the joined tuple."""
    return f"{stream}.{column}"


def event_ids(streams: Mapping[str, Source]) -> list[str]:
    """The columns of joined tuples that have the ids of their events."""
    return [qualified(stream, column) for stream, source in streams.items() for column in source.event_id]
