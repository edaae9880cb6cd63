import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.warehouse.event_columns import *


def read_slice(piece, source):
    try:
        st = os.stat(piece.path)
    except FileNotFoundError:
        raise SourceRangeGoneError(f"{piece.path} is gone")
    if (st.st_size, st.st_mtime_ns) != (piece.size, piece.modified_ns):
        raise SourceRangeGoneError(f"{piece.path} changed")
    schema = pa.schema([(n, k.arrow()) for n, k in source.columns.items()])
    if source.format == "parquet":
        try:
            t = pq.read_table(piece.path, columns=schema.names).cast(schema)
        except (pa.ArrowException, OSError) as e:
            raise UnreadableFileError(f"{piece.path}: {e}")
        rec = pa.nulls(t.num_rows, pa.large_binary())
    else:
        with open(piece.path, "rb") as f:
            f.seek(piece.first)
            b = f.read(piece.last - piece.first)
        t = pj.read_json(
            io.BytesIO(b),
            read_options=pj.ReadOptions(use_threads=False, block_size=1 << 30),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        rec = pa.array(b.splitlines(), pa.large_binary())
    n = t.num_rows
    t = (
        t.append_column(ARRIVED_AT, pa.array(np.full(n, piece.modified_ns // 1000), pa.timestamp("us", "UTC")))
        .append_column(RECORD, rec)
        .append_column(RANGE, pa.array(np.full(n, piece.range_no, np.int32)))
        .append_column(POSITION, pa.array(np.arange(n)))
    )
    yield Arrivals(t, [], n)
