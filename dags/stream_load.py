"""DAGs stream_load__<pipeline>: launch, watch, drain and restart the Spark driver that loads a stream.

One DAG per file of the pipelines folder. A faulty file keeps its DAG, so that a running stream can still be drained;
its error is shown as the import error of `pipeline_definitions.py`, and `start` refuses it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from freshet_airflow.drain_stream_operator import DrainStreamOperator
from freshet_airflow.pipelines import pipeline_names
from freshet_airflow.run_actions import only_for
from freshet_airflow.stream_job_operator import StreamJobOperator

DOCUMENTATION = """
Loads the stream **{pipeline}** into the warehouse, by a Spark driver that Airflow launches and watches.
Pipelines of one `driver` share its process; what is done here is done to this one alone.

A run with the action **start** shows as running for as long as the stream runs; it waits deferred and takes no worker.
One such run is enough: while it waits, another *start* is skipped at once, and says which run watches the stream.

| to | do |
|---|---|
| start the stream | trigger this DAG, action *start*. A living driver is found and kept; there are never two. |
| load what has landed, and stop | trigger it again, action *drain*. Both runs succeed when the driver has stopped |
| take over a changed definition | action *restart*: drain, then start |
| see why a run failed | the task's log ends with the driver's error and the end of its log file |
| go on after a failure | fix the cause, then clear the task *run* |

Clearing, failing or deleting a run does not touch the driver; only *drain* and *restart* stop it.
A driver that dies is restarted by the run that watches it.
"""

ACTION = Param(
    "start",
    type="string",
    enum=["start", "drain", "restart"],
    title="Action",
    values_display={
        "start": "start: run the stream, or find it running",
        "drain": "drain: load what has landed, then stop",
        "restart": "restart: drain, then start",
    },
    description="What is to be done with the stream's driver.",
)

for pipeline in pipeline_names():
    with DAG(
        dag_id=f"stream_load__{pipeline}",
        description=f"Loads the stream {pipeline} into the warehouse.",
        doc_md=DOCUMENTATION.format(pipeline=pipeline),
        schedule=None,
        params={"action": ACTION},
        # A watching run and a drain beside it, and room for runs that wait for a drain's end to start anew.
        max_active_runs=16,
        tags=["freshet", "stream", pipeline],
        # An outage of the warehouse or of Airflow's API; a driver that fails is a matter of the restart policy.
        default_args={"retries": 5, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2.0},
    ):
        drain = DrainStreamOperator(task_id="drain", pipeline=pipeline, pre_execute=only_for("drain", "restart"))
        run = StreamJobOperator(
            task_id="run", pipeline=pipeline, pre_execute=only_for("start", "restart"), trigger_rule="none_failed"
        )
        drain >> run
