"""DAGs forget_held__<pipeline>: delete held tuples that no try will make facts of."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from freshet_airflow.forget_held_operator import FORM, ForgetHeldOperator
from freshet_airflow.pipelines import pipeline_names

DOCUMENTATION = """
Deletes held tuples of **{pipeline}** for good, such as a header line that was taken for an event. They do not become
facts, and sent again they are duplicates. That they arrived stays counted (as *pruned*), so the balance and
`freshet verify` hold; `freshet.reprocessing_run` keeps who asked for it, when, and how many there were.

The page *Freshness* shows what is held, and starts this DAG for what its filter shows. It is a DAG of its own so that
rights to delete can be given apart from rights to retry (`reprocess_shed__{pipeline}`). It can run beside the stream.
"""

for pipeline in pipeline_names():
    with DAG(
        dag_id=f"forget_held__{pipeline}",
        description=f"Deletes held tuples of {pipeline}.",
        doc_md=DOCUMENTATION.format(pipeline=pipeline),
        schedule=None,
        params=FORM,
        max_active_runs=1,
        tags=["freshet", "reprocessing", pipeline],
        # An outage of the warehouse: what comes to be held meanwhile is not forgotten.
        default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    ):
        ForgetHeldOperator(task_id="forget", pipeline=pipeline)
