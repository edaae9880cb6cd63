"""What a lookup gives to tuples that find nothing: the defaults of its YAML as values of the fetched columns' types."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from spark_jobs.definition import Default, Lookup
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.relation_spec import RelationSpec


def typed_defaults(lookup: Lookup, spec: RelationSpec) -> dict[str, pa.Scalar]:
    """Convert the defaults of a lookup's YAML; empty where it has none.

    Raises:
        SchemaMismatchError: a value does not fit its column's type; all such values at once.
    """
    if not isinstance(lookup.on_unmatched, Default):
        return {}
    values, problems = {}, []
    for field in spec.fetched_schema:
        value = lookup.on_unmatched.default[field.name]
        try:
            values[field.name] = _scalar(value, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            problems.append(
                f"lookup of {lookup.relation}: default {value!r} of {field.name} is no {field.type}. "
                f"Write a value of the type of the relation's column {lookup.fetch[field.name]}, or null."
            )
    if problems:
        raise SchemaMismatchError("\n".join(problems))
    return values


def _scalar(value: Any, wanted: pa.DataType) -> pa.Scalar:
    if value is None:
        return pa.scalar(None, wanted)
    if pa.types.is_decimal(wanted):
        return pa.scalar(_decimal(value), wanted)
    if isinstance(value, str) or pa.types.is_string(wanted):
        return pa.scalar(str(value)).cast(wanted)
    return pa.scalar(value, wanted)


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
