"""Reads slices without the records that are poison, and parts of slices, to find those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fates import MALFORMED, POISON
from spark_jobs.definition.stream_tuple import POSITION
from spark_jobs.ledger.poison import Poison, PoisonSpan
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.names import compression_of
from spark_jobs.source.files.planned_file import FileSlice, unpacked
from spark_jobs.source.files.regular_files import open_regular
from spark_jobs.source.kafka.partition import OffsetSlice
from spark_jobs.source.record_lines import BLOCK_BYTES, line_end_at_or_after
from spark_jobs.source.records import all_malformed
from spark_jobs.source.records.decoded import Decoded, merged

_FAR = 1 << 62


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


def bounds(piece: FileSlice | OffsetSlice) -> tuple[int, int]:
    """The positions between which a slice has all its records; of a packed file, by unpacking it. O(bytes) then.

    Raises:
        OSError, EOFError, zlib.error, pyarrow.ArrowException: the file can't be unpacked.
    """
    compression = None if isinstance(piece, OffsetSlice) else compression_of(piece.path)
    if isinstance(piece, OffsetSlice) or compression is None:
        return piece.first, piece.last
    size = 0
    with open_regular(piece.path) as file:
        content = unpacked(file, compression)
        while part := content.read(BLOCK_BYTES):
            size += len(part)
    return 0, size


def window(piece: FileSlice | OffsetSlice, first: int, last: int) -> FileSlice | OffsetSlice:
    """The part of a slice whose records lie at these positions; there may be none. Not of Parquet files.

    What lies outside of it in a packed file is unpacked, and not decoded.
    """
    if isinstance(piece, OffsetSlice):
        return replace(piece, first=first, last=last, after=piece.after if first == piece.first else None)
    if compression_of(piece.path) is None:
        first, last = (line_end_at_or_after(piece.path, position) for position in (first, last))
        return replace(piece, first=first, last=min(last, piece.last))
    outside = (PoisonSpan(0, first, ""), PoisonSpan(last, _FAR, ""))
    return replace(piece, poison=(*piece.poison, *outside))


def has_one_record(part: FileSlice | OffsetSlice) -> bool:
    """Whether a part that is no packed file's has no more."""
    if isinstance(part, OffsetSlice):
        return part.last - part.first == 1
    return compression_of(part.path) is None and line_end_at_or_after(part.path, part.first + 1) >= part.last
