"""Times of stream tuples, in the one form that latencies and held tuples need."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.warehouse.copy_encoding.catalogue import encoder_for
from spark_jobs.warehouse.postgres_types import PostgresType

TIMESTAMPTZ = PostgresType("timestamptz", "timestamp with time zone", fraction=6)
_MICROSECONDS = pa.timestamp("us", tz="UTC")


def utc_times(values: pa.Array) -> pa.Array:
    """Times as UTC timestamps in microseconds; null where there is none that PostgreSQL could keep.

    A date is taken as its midnight, a time without a zone as UTC.
    """
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(values.type):
        return pa.nulls(len(values), _MICROSECONDS)
    if values.type.unit != "us":
        values = values.cast(pa.timestamp("us", tz=values.type.tz), safe=False)
    times = values.cast(pa.int64()).cast(_MICROSECONDS)
    unfit = encoder_for(TIMESTAMPTZ, _MICROSECONDS).unfit(times)
    return times if unfit is None else pc.if_else(pa.array(unfit), None, times)
