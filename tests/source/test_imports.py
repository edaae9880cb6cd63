"""Decoding records needs neither Spark nor a database: tasks, reprocessing and the proof do it alike."""

from __future__ import annotations

import subprocess
import sys


def test_decoding_imports_neither_spark_nor_a_database() -> None:
    script = (
        "import sys, spark_jobs.source.files.reading; print({'pyspark', 'psycopg2', 'airflow'} & sys.modules.keys())"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"
