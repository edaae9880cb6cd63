"""Parquet: a record is a row of a file."""

from __future__ import annotations

from spark_jobs.definition.formats.base import FormatFacts


class _Parquet(FormatFacts):
    name = "parquet"
    borne_by = frozenset({"files"})
    held_as = "json"
    holds_columns = True
    is_divisible = False


PARQUET = _Parquet()
