"""A trial: does with the records of a slice what a task does, without the warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.columns.copy_encoding.column_encoder import Target
from spark_jobs.columns.copy_encoding.rows import EncodedRows, encode
from spark_jobs.definition.joined_tuple import qualified
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.source.slices import SourceSlice
from spark_jobs.stages.screening import screen
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

_NO_BATCH = 0


@dataclass(frozen=True)
class TrialReading:
    """Decodes, screens and encodes the records of one stream; what comes of them is dropped.

    Attributes:
        reader: of the stream.
        event: its event columns.
        key: columns of its event id.
        targets: the columns of facts that are the stream's own, by their names there.
    """

    reader: SliceReader
    event: EventColumns
    key: tuple[FactColumn, ...]
    targets: tuple[Target, ...]

    @classmethod
    def of_one(cls, reader: SliceReader, event: EventColumns, fact: FactTable) -> TrialReading:
        """Of a pipeline's only stream."""
        own = tuple(target for target in fact.targets if target.source in event.source_columns)
        return cls(reader, event, fact.key, own)

    @classmethod
    def of_several(cls, plan: StreamPlan, fact: FactTable) -> TrialReading:
        """Of one of several streams."""
        held = plan.held
        own = {qualified(held.name, column): column for column in held.event.source_columns}
        targets = (target._replace(source=own[target.source]) for target in fact.targets if target.source in own)
        return cls(plan.reader, held.event, held.event_id, tuple(targets))

    def __call__(self, piece: SourceSlice) -> None:
        """Read a slice to its end; raises as `SliceReader`."""
        for arrivals in self.reader(piece):
            tuples, held = screen(arrivals.tuples, self.event)
            _render(encode(tuples, self.targets).rows)
            rejected = HeldRows.build(arrivals.rejected + held, self.event, self.key, _NO_BATCH)
            if len(rejected):
                _render(rejected.encoded())


def _render(rows: EncodedRows) -> None:
    rows.render(0, rows.count)
