"""DAGs reprocess_shed__<pipeline>: load shed tuples, and retry unmatched ones whose master data has arrived."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable
from freshet_airflow.assets import backlog
from freshet_airflow.backlog_check_operator import BacklogCheckOperator
from freshet_airflow.pipelines import pipeline_names
from freshet_airflow.reprocessing_form import FORM, arguments
from freshet_airflow.spark_batch_operator import SparkBatchOperator

from spark_jobs.settings import PROJECT_ROOT

DOCUMENTATION = """
Makes facts of tuples of **{pipeline}** that are held: *shed* under overload, or *unmatched* because their key was not
in the master data. A Spark batch job; it can run beside the stream, and nothing is ever loaded twice.

It runs by itself when tuples are due and the stream has time to spare, and ends early when the stream gets overloaded.
An unmatched tuple is due after a pause that doubles with each try; after a quarter of it, and half an hour at most by
default, when its relation has got new tuples.
After `reprocessing.most_attempts` tries a tuple is *rejected*, with the reason.

| to | do |
|---|---|
| load the backlog now | trigger this DAG; it takes what is due |
| retry unmatched tuples now | trigger it with *Retry all unmatched now* |
| retry rejected tuples | fix what refused them; trigger it, part of the reason in *Give rejected tuples a new try* |
| load one bad hour only | trigger it with *Arrived from* and *Arrived until* |
| finish although the stream is busy | trigger it without *Yield to the stream* |
| see how far it is | the task's log, or the page *Warehouse freshness* |
| go on after a failure | fix the cause, then clear the task, or wait for the next run |

Ending, clearing or failing a run loses nothing: what it has settled is committed, the rest waits for the next run.
"""

for pipeline in pipeline_names():
    with DAG(
        dag_id=f"reprocess_shed__{pipeline}",
        description=f"Loads shed tuples of {pipeline}, and retries unmatched ones.",
        doc_md=DOCUMENTATION.format(pipeline=pipeline),
        # The asset tells of tuples that are due; the clock is for when its event got lost.
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable("*/15 * * * *", timezone="UTC"), assets=[backlog(pipeline)]
        ),
        catchup=False,
        params=FORM,
        max_active_runs=1,
        tags=["freshet", "reprocessing", pipeline],
        # An outage of the warehouse. Tuples that can't be settled are tried again by later runs.
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "retry_exponential_backoff": 2.0},
    ):
        check = BacklogCheckOperator(task_id="check", pipeline=pipeline)
        run = SparkBatchOperator(
            task_id="run",
            pipeline=pipeline,
            application=str(PROJECT_ROOT / "spark_jobs" / "reprocess_shed.py"),
            arguments=arguments,
        )
        check >> run
