"""Which encoder serves which type of column."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.warehouse.copy_encoding.characters import TextEncoder
from spark_jobs.warehouse.copy_encoding.decimals import NumericEncoder
from spark_jobs.warehouse.copy_encoding.encoder import ColumnEncoder
from spark_jobs.warehouse.copy_encoding.instants import DateEncoder, TimestampEncoder
from spark_jobs.warehouse.copy_encoding.numbers import BooleanEncoder, FloatEncoder, IntegerEncoder, RealEncoder
from spark_jobs.warehouse.copy_encoding.octets import ByteaEncoder, JsonEncoder
from spark_jobs.warehouse.copy_encoding.uuids import UuidEncoder
from spark_jobs.warehouse.postgres_types import PostgresType

# PostgreSQL's type -> its encoder, and the types of a stream tuple's column that it takes.
_ENCODERS: dict[str, tuple[type[ColumnEncoder], str]] = {
    "int2": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "int4": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "int8": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "float4": (RealEncoder, "float, tinyint, smallint"),
    "float8": (FloatEncoder, "double, float, tinyint, smallint, int"),
    "numeric": (NumericEncoder, "decimal(p,s), tinyint, smallint, int, bigint"),
    "bool": (BooleanEncoder, "boolean"),
    "text": (TextEncoder, "string"),
    "varchar": (TextEncoder, "string"),
    "bpchar": (TextEncoder, "string"),
    "json": (JsonEncoder, "string"),
    "jsonb": (JsonEncoder, "string"),
    "uuid": (UuidEncoder, "string"),
    "date": (DateEncoder, "date"),
    "timestamp": (TimestampEncoder, "timestamp"),
    "timestamptz": (TimestampEncoder, "timestamp"),
    "bytea": (ByteaEncoder, "binary"),
}
SUPPORTED = (
    "smallint, integer, bigint, real, double precision, numeric, boolean, text, varchar, char, "
    "date, timestamp, timestamptz, uuid, bytea, json, jsonb"
)


def encoder_for(type: PostgresType, source: pa.DataType) -> ColumnEncoder:
    """The encoder of arrow values of type `source` for a column of type `type`.

    Raises:
        SchemaMismatchError: there is none: the type is not supported, or values would change on the way.
    """
    if type.name not in _ENCODERS:
        raise SchemaMismatchError(f"type {type.sql} is not supported; supported are {SUPPORTED}")
    if type.scale is not None and type.scale < 0:
        raise SchemaMismatchError(f"type {type.sql} is not supported; use a scale of at least 0")
    encoder, sources = _ENCODERS[type.name]
    plain = plain_type(source)
    if not encoder.accepts(plain):
        raise SchemaMismatchError(f"{type.sql} can't keep values of type {plain}; it takes {sources}")
    return encoder(type, plain)


def plain_type(source: pa.DataType) -> pa.DataType:
    """The type of the values themselves, for arrow types that lay them out in another way."""
    if pa.types.is_dictionary(source):
        return plain_type(source.value_type)
    if pa.types.is_string_view(source):
        return pa.large_string()
    if pa.types.is_binary_view(source):
        return pa.large_binary()
    if pa.types.is_decimal32(source) or pa.types.is_decimal64(source):
        return pa.decimal128(source.precision, source.scale)
    return source
