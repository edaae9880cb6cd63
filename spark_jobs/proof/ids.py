"""Under which ids the warehouse may know a landed record."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition import PipelineDefinition
from spark_jobs.loading.payload import digests, json_objects
from spark_jobs.proof.events import LandedEvents
from spark_jobs.proof.staging import StagedEvents
from spark_jobs.warehouse.event_id import MOST_CHARACTERS, event_id_texts
from spark_jobs.warehouse.fact_table import FactColumn
from spark_jobs.warehouse.postgres_types import PostgresType


class EventIds:
    """Gives landed records their ids: the text of the event id, or else the digest of the record.

    A record that Spark could not read is held under the digest of its bytes, whatever could be read of it. One
    without a usable event id is held under the digest of its columns as JSON.

    Args:
        definition: the pipeline.
        key_types: event id column -> PostgreSQL's name of the type that it has in the fact table.
        held_digests: the ids of held tuples that are digests.
    """

    def __init__(self, definition: PipelineDefinition, key_types: Mapping[str, str], held_digests: Set[str]) -> None:
        columns = definition.source.columns
        self._columns = tuple(columns)
        self._held = held_digests
        self._key = [
            FactColumn(name, name, columns[name].arrow(), PostgresType(kind, kind), nullable=False)
            for name, kind in key_types.items()
        ]

    def identify(self, events: LandedEvents) -> StagedEvents:
        """The events with their ids, ready to be staged. O(n)."""
        readable = events.readable.to_numpy(zero_copy_only=False)
        texts = event_id_texts(events.values, self._key)
        usable = pc.fill_null(pc.less_equal(pc.binary_length(texts), MOST_CHARACTERS), False)
        usable = usable.to_numpy(zero_copy_only=False) & readable
        raw_ids: list[str | None] = [None] * len(texts)
        if events.raw_hashes is not None:
            for row, digest in enumerate(events.raw_hashes):
                # Held by its raw bytes, a record that can be read here was none that Spark could read.
                if not readable[row] or digest_id(digest) in self._held:
                    raw_ids[row] = digest_id(digest)
        rows = np.flatnonzero(readable & ~usable)
        for row, digest in zip(rows.tolist(), self._digests(events.values, rows), strict=True):
            raw_ids[row] = raw_ids[row] or digest_id(digest)
        raw_held = [raw_id is not None and raw_id in self._held for raw_id in raw_ids]
        return StagedEvents(
            values=events.values,
            event_ids=pc.if_else(pa.array(usable), texts, None),
            raw_ids=pa.array(raw_ids, pa.string()),
            raw_held=pa.array(raw_held, pa.bool_()),
            readable=events.readable,
        )

    def _digests(self, values: pa.Table, rows: np.ndarray) -> list[str]:
        if not rows.size:
            return []
        return digests(json_objects(values.take(pa.array(rows)), self._columns).view(pa.large_binary()))


def digest_id(digest: str) -> str:
    """The id of a held tuple that is known by a digest only."""
    return f'{{"sha256":"{digest}"}}'
