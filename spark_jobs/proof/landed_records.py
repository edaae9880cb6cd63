"""The records of landed files, decoded as the stream does, and the ids under which the warehouse may know them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.columns.event_id import MOST_CHARACTERS, event_id_texts
from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import POSITION, RECORD
from spark_jobs.loading.payload import tuple_objects
from spark_jobs.proof.held import HeldTuples, codes_of, digest_id
from spark_jobs.proof.staged_events import StagedEvents
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.warehouse.fact_table import FactColumn

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]


class LandedRecords(NamedTuple):
    """Some records of one file.

    Attributes:
        values: the columns of the source's schema, shape (n,); null where the record could not be decoded.
        sound: bool, shape (n,): whether it could.
        records: large_binary, shape (n,): the record's bytes, null in Parquet files, which have none.
        positions: int64, shape (n,): where each lies in the file.
    """

    values: pa.Table
    sound: NDArray[np.bool_]
    records: pa.Array
    positions: NDArray[np.int64]

    def where(self, kept: NDArray[np.bool_]) -> LandedRecords:
        """Those that are kept; bool, shape (n,)."""
        if kept.all():
            return self
        values, records = self.values.filter(pa.array(kept)), self.records.filter(pa.array(kept))
        return LandedRecords(values, self.sound[kept], records, self.positions[kept])


def landed_records(read: Iterable[Arrivals], source: Source) -> Iterator[LandedRecords]:
    """Records as they are read, decoded or not."""
    columns = list(source.columns)
    for arrivals in read:
        for tuples, sound in ((arrivals.tuples, True), *((group.tuples, False) for group in arrivals.rejected)):
            if tuples.num_rows:
                yield LandedRecords(
                    tuples.select(columns),
                    np.full(tuples.num_rows, sound),
                    single_array(tuples[RECORD]).cast(pa.large_binary()),
                    tuples[POSITION].to_numpy(),
                )


class EventIds:
    """Gives landed records their ids: the text of the event id, or else the digest of the record.

    Former versions left the decoding to Spark: what that could not read is held under the digest of its line, and what
    had no event id under that of its columns as JSON. Where tuples are held so, their records are known by these.

    Args:
        source: gives the records.
        key_types: event id column -> PostgreSQL's name of the type that it has in the fact table.
        held: the held tuples.
    """

    def __init__(self, source: Source, key_types: Mapping[str, str], held: HeldTuples) -> None:
        columns = source.columns
        self._source_columns = columns
        self._columns = tuple(columns)
        self._held = held
        self._is_known_by_place = source.is_known_by_place
        self._has_header = source.options.get("header") == "true"
        self._key = [
            FactColumn(name, name, columns[name].arrow(), PostgresType(kind, kind), nullable=False)
            for name, kind in key_types.items()
        ]

    def identify(self, landed: LandedRecords) -> StagedEvents:
        """The records with their ids, and with the codes of those that may be held, ready to be staged. O(n)."""
        texts = self.texts(landed.values)
        usable = pc.fill_null(pc.less_equal(pc.binary_length(texts), MOST_CHARACTERS), False)
        usable = usable.to_numpy(zero_copy_only=False) & (landed.sound | self._is_known_by_place)
        raw_ids = self._raw_ids(landed, usable)
        held = np.flatnonzero(usable & self._held.may_hold(texts))
        return StagedEvents(
            values=landed.values,
            event_ids=pc.if_else(pa.array(usable), texts, None),
            raw_ids=pa.array(raw_ids, pa.string()),
            raw_held=pa.array([raw_id in self._held.digests for raw_id in raw_ids], pa.bool_()),
            sound=landed.sound,
            records=_spread(self._records(landed, held), held, len(usable)),
            objects=_spread(self._objects(landed, held if self._held.has_objects else held[:0]), held, len(usable)),
        )

    def texts(self, tuples: pa.Table) -> pa.Array:
        """The texts of tuples' event ids, shape (n,); null where a part is null."""
        return event_id_texts(tuples, self._key)

    def unreadable(self, path: Path) -> StagedEvents | None:
        """A file that can't be read, where a former version has rejected it whole: as one record, its path."""
        raw_id = digest_id(hashlib.sha256(os.fsencode(path)).hexdigest())
        if raw_id not in self._held.digests:
            return None
        values = pa.table({name: pa.nulls(1, kind.arrow()) for name, kind in self._source_columns.items()})
        nothing, code = pa.nulls(1, pa.string()), pa.nulls(1, pa.int64())
        return StagedEvents(values, nothing, pa.array([raw_id]), pa.array([True]), np.array([False]), code, code)

    def _raw_ids(self, landed: LandedRecords, usable: Bools) -> list[str | None]:
        """The id of each record that is a digest; None where it is known by its event id."""
        ids: list[str | None] = [None] * len(usable)
        rows = np.arange(len(usable)) if self._held.digests else np.flatnonzero(~usable)
        without_id = np.flatnonzero(landed.sound & ~usable)
        objects = dict(zip(without_id.tolist(), self._objects(landed, without_id).to_pylist(), strict=True))
        for row, record in zip(rows.tolist(), self._records(landed, rows).to_pylist(), strict=True):
            usual = digest_id(hashlib.sha256(record).hexdigest())
            if usual in self._held.digests or not self._held.digests:
                ids[row] = usual
                continue
            line = record.partition(b"\n")[2] if self._has_header else record
            former = (digest_id(hashlib.sha256(form).hexdigest()) for form in (line, objects.get(row, record)))
            ids[row] = next((id for id in former if id in self._held.digests), None if usable[row] else usual)
        return ids

    def _records(self, landed: LandedRecords, rows: Int64Array) -> pa.Array:
        """The bytes of these records; of Parquet files, which have none, the JSON objects of their columns."""
        records = landed.records.take(pa.array(rows))
        return self._objects(landed, rows) if records.null_count else records

    def _objects(self, landed: LandedRecords, rows: Int64Array) -> pa.Array:
        return tuple_objects(landed.values.take(pa.array(rows)), self._columns).view(pa.large_binary())


def _spread(records: pa.Array, rows: Int64Array, count: int) -> pa.Array:
    """The codes of records at their rows, int64, shape (count,); null in all others."""
    codes, known = np.zeros(count, np.int64), np.zeros(count, bool)
    if len(records):
        codes[rows], known[rows] = codes_of(records), True
    return pa.array(codes, mask=~known)
