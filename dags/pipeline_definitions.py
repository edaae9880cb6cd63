"""Shows the errors of all faulty pipeline definitions as one import error of Airflow.

A file of its own: an import error takes away every DAG of its file, and the DAGs of the sound pipelines have to stay.
"""

from __future__ import annotations

from spark_jobs.definition import load_definitions

load_definitions()
