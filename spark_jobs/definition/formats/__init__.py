"""The formats of records, as definitions have them: one table. How each is decoded says `spark_jobs.source.records`.

`base.py` says what a format has to tell; `json.py`, `csv.py`, `parquet.py` and `avro.py` tell it.
"""

from spark_jobs.definition.formats.avro import AVRO
from spark_jobs.definition.formats.base import FormatFacts
from spark_jobs.definition.formats.csv import CSV
from spark_jobs.definition.formats.json import JSON
from spark_jobs.definition.formats.parquet import PARQUET

FORMATS: dict[str, FormatFacts] = {each.name: each for each in (JSON, PARQUET, CSV, AVRO)}
"""Name -> the format, in the order of the reference."""

__all__ = ["FORMATS", "FormatFacts"]
