"""Makes stream tuples of held ones again: their payloads are records, and the stream's decoder reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fates import NOT_READ_BACK
from spark_jobs.definition.formats import FORMATS
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.definition.stream_tuple import ARRIVED_AT
from spark_jobs.loading.outcome import Held
from spark_jobs.loading.payload import (
    HELD_ID,
    IN_BASE64,
    PAYLOAD,
    PAYLOAD_ENCODING,
    SOURCE_POSITION,
    SOURCE_UNIT,
    payload_bytes,
)
from spark_jobs.source.kinds import kind_of
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.warehouse.fact_table import FactColumn
from spark_jobs.warehouse.part_table import AccumulatingTable

_UNDECODED = "its payload holds no record of the source, so that it can't be read back"
_MALFORMED = "its payload can't be read back: with the source's present schema it is "
_DIFFERENT = "its payload can't be read back: with the source's present schema it has another event id"


@dataclass(frozen=True)
class HeldRecords:
    """Reads payloads back; pickled into the tasks.

    Tuples that are not the ones that were held are rejected: a payload that is no record, or that the source's present
    schema makes another event of.

    Attributes:
        columns: of the tuples.
        decoder: of the source whose records they are; None: they are joined tuples, which were never records.
        event_id: the columns of the event id, by the source's names.
        prefix: what event ids begin with where they are held.
    """

    columns: Mapping[str, StreamType]
    decoder: RecordDecoder | None
    event_id: tuple[FactColumn, ...]
    prefix: str = ""

    @classmethod
    def of_parts(cls, decoders: Mapping[str, RecordDecoder], table: AccumulatingTable) -> tuple[HeldRecords, ...]:
        """One for each stream of a pipeline whose facts accumulate, in its order; their decoders are given by name."""
        return tuple(
            cls(
                decoders[part.stream].source.columns,
                decoders[part.stream],
                part.named_in_stream(part.event_id),
                part.stream + STREAM_SEPARATOR,
            )
            for part in table.parts
        )

    def read(self, held: pa.Table, kept: Sequence[str]) -> tuple[pa.Table, list[Held]]:
        """The tuples that are what was held, and the others by the reason why not.

        Args:
            held: shape (n,), with `HELD_ID`, `PAYLOAD`, `PAYLOAD_ENCODING`, and of a kind that adds columns also
                `SOURCE_UNIT`, `SOURCE_POSITION` and `_arrived_at`.
            kept: columns that the tuples keep, besides the source's that they get.
        """
        own = set() if self.decoder is None else {self.decoder.source.record_format.held_as}
        records = pa.array(sorted(own | {each.held_as for each in FORMATS.values()}))
        formats = pc.replace_substring(held[PAYLOAD_ENCODING], IN_BASE64, "")
        of_records = pc.is_in(formats, records)
        found, rejected = [], []
        for record_format in pc.unique(formats.filter(of_records)).to_pylist():
            sound, unsound = self._decoded(held.filter(pc.equal(formats, record_format)), record_format, kept)
            found.append(sound)
            rejected += unsound
        undecoded = held.filter(pc.invert(of_records))
        if undecoded.num_rows:
            rejected.append(Held(NOT_READ_BACK, _UNDECODED, None, self._without_values(undecoded, kept)))
        return pa.concat_tables(found) if found else self._without_values(held.slice(0, 0), kept), rejected

    def _decoded(self, held: pa.Table, record_format: str, kept: Sequence[str]) -> tuple[pa.Table, list[Held]]:
        """The tuples of payloads of one format that are what was held, and the others."""
        records = payload_bytes(held[PAYLOAD].combine_chunks(), held[PAYLOAD_ENCODING].combine_chunks())
        source = None if self.decoder is None else self.decoder.source
        columns = self.columns if source is None else source.record_columns
        if self.decoder is not None and record_format == self.decoder.source.format:
            decoded = self.decoder.decode(records)
        else:
            decoded = decode_records(records, record_format, columns)
        tuples = decoded.tuples
        if source is not None and source.kind.columns:
            place = (held[SOURCE_UNIT], held[SOURCE_POSITION], held[ARRIVED_AT])
            tuples = kind_of(source).with_columns(tuples, *place)
        tuples = pa.table([*tuples.columns, *held.select(kept).columns], names=[*tuples.column_names, *kept])
        held_ids = pc.utf8_slice_codeunits(held[HELD_ID].cast(pa.large_string()), len(self.prefix))
        ids = event_id_texts(tuples, self.event_id)
        # What could not be read when it was held has an id that says nothing of its event.
        same = pc.or_(pc.equal(ids, held_ids), pc.and_(pc.is_valid(ids), pc.starts_with(held_ids, "{")))
        sound, known = pc.is_null(decoded.reasons), pc.fill_null(same, False)
        rejected = []
        if decoded.reasons.null_count < len(sound):
            reasons = pc.binary_join_element_wise(_MALFORMED, decoded.reasons.drop_null(), "")
            rejected.append(Held(NOT_READ_BACK, reasons, None, tuples.filter(pc.invert(sound))))
        different = pc.and_not(sound, known)
        if pc.any(different).as_py():
            rejected.append(Held(NOT_READ_BACK, _DIFFERENT, None, tuples.filter(different)))
        return tuples.filter(pc.and_(sound, known)), rejected

    def _without_values(self, held: pa.Table, kept: Sequence[str]) -> pa.Table:
        values = [pa.nulls(held.num_rows, kind.arrow()) for kind in self.columns.values()]
        return pa.table([*values, *held.select(kept).columns], names=[*self.columns, *kept])
