"""DAGs rebuild_cache__<pipeline>: rebuild a stream's front stages and the snapshots of its relations."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from airflow.sdk import DAG, CronTriggerTimetable
from freshet_airflow.pipelines import pipeline_names
from freshet_airflow.rebuild_form import FORM, arguments
from freshet_airflow.spark_batch_operator import SparkBatchOperator

from spark_jobs.settings import PROJECT_ROOT

DOCUMENTATION = """
Rebuilds what the stream **{pipeline}** keeps of its master data: the hot tuples of its front stages, chosen by how
often they were found, and the snapshots of relations with `read: snapshot`. Both are read anew from the warehouse.

The stream goes on meanwhile, and takes the new versions over between two batches. So does the next driver, where
none runs. A version is written whole or not at all; a damaged one is refused, and the former one used.

| to | do |
|---|---|
| bring cache staleness to zero | trigger this DAG as it is |
| repair a cache that was refused | the same; the page *Warehouse freshness* says what was refused, and why |
| give a lookup with `read: snapshot` its first snapshot | the same |
| rebuild one relation only | name it under *Relations* |
| see what was rebuilt | the task's log has a line for each cache: version, tuples, bytes, seconds |
| go on after a failure | fix the cause, then clear the task; until then the former versions are used |

Running it twice does no harm. It gives way to the stream where both want the processor.
"""

# Every night. What changes in between reaches the facts all the same, as far as it is noted.
SCHEDULE = "0 3 * * *"

for pipeline in pipeline_names():
    with DAG(
        dag_id=f"rebuild_cache__{pipeline}",
        description=f"Rebuilds the caches of the stream {pipeline}.",
        doc_md=DOCUMENTATION.format(pipeline=pipeline),
        schedule=CronTriggerTimetable(SCHEDULE, timezone="UTC"),
        catchup=False,
        params=FORM,
        max_active_runs=1,
        tags=["freshet", "cache", pipeline],
        # An outage of the warehouse.
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "retry_exponential_backoff": 2.0},
    ):
        SparkBatchOperator(
            task_id="rebuild",
            pipeline=pipeline,
            application=str(PROJECT_ROOT / "spark_jobs" / "rebuild_cache.py"),
            arguments=partial(arguments, pipeline),
        )
