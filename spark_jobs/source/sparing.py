"""Decodes records but for those that are poison."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fates import MALFORMED, POISON
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.ledger.poison import Poison
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.records.decoded import Decoded, all_malformed, merged
from spark_jobs.source.slices import SourceSlice


def decode_sparing(
    poison: Poison,
    records: pa.Array,
    positions: NDArray[np.int64],
    columns: Mapping[str, StreamType],
    decode: Callable[[pa.Array], Decoded],
) -> Decoded:
    """Decode records but for those that are poison: these count as malformed. O(n) besides the decoding.

    Args:
        poison: positions that are not to be decoded.
        records: shape (n,).
        positions: shape (n,).
        columns: those of the tuples.
        decode: decodes records.
    """
    spans = spans_at(poison, positions)
    if (spans < 0).all():
        return decode(records)
    spared = np.flatnonzero(spans < 0)
    parts = [(spared, decode(records.take(pa.array(spared))))] if len(spared) else []
    for number in np.unique(spans[spans >= 0]).tolist():
        rows = np.flatnonzero(spans == number)
        parts.append((rows, all_malformed(len(rows), poison[number].reason, columns)))
    return merged(parts)


def arrivals_of(
    piece: SourceSlice, decoded: Decoded, records: pa.Array, positions: NDArray[np.int64], arrived_ns: int
) -> Arrivals:
    """What came of records that arrived together, as those of a file do. O(n).

    Args:
        piece: in which they lie.
        decoded: what decoding gave, but for those that are poison; n records.
        records: what is held of each, shape (n,); null: its columns.
        positions: shape (n,).
        arrived_ns: when, in ns since 1970.
    """
    count = len(positions)
    arrived = pa.scalar(arrived_ns // 1000, pa.timestamp("us", "UTC"))
    tuples = (
        decoded.tuples.append_column(ARRIVED_AT, pa.repeat(arrived, count))
        .append_column(RECORD, records)
        .append_column(RANGE, pa.repeat(pa.scalar(piece.range_no, pa.int32()), count))
        .append_column(POSITION, pa.array(positions))
    )
    return sifted(piece.poison, tuples, decoded.reasons, identified=False)


def sifted(poison: Poison, tuples: pa.Table, reasons: pa.Array, *, identified: bool) -> Arrivals:
    """What came: tuples, and what is held of records that are none, poison apart from what is malformed. O(n).

    Args:
        poison: positions that were not decoded.
        tuples: all of them; n rows, with `POSITION`.
        reasons: as `Decoded` has them, shape (n,).
        identified: whether their event ids are known.
    """
    count = len(reasons)
    if reasons.null_count == count:
        return Arrivals(tuples, [], count)
    sound = tuples.filter(pc.is_null(reasons))
    tuples, reasons = tuples.filter(pc.is_valid(reasons)), reasons.drop_null()
    is_poison = spans_at(poison, tuples[POSITION].to_numpy()) >= 0
    held = [
        Held(fate, reasons.filter(pa.array(where)), None, tuples.filter(pa.array(where)), identified=identified)
        for fate, where in ((MALFORMED, ~is_poison), (POISON, is_poison))
        if where.any()
    ]
    return Arrivals(sound, held, count)


def spans_at(poison: Poison, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the span that each position lies in; -1 for none. Shape (n,)."""
    spans = np.full(len(positions), -1)
    for number, span in enumerate(poison):
        spans[(positions >= span.first) & (positions < span.last)] = number
    return spans
