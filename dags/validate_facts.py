"""DAGs validate_facts__<pipeline>: Great Expectations over the facts that were loaded, one DAG per pipeline.

A run begins when the stream has loaded facts that no validation has looked at, and by hand.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from freshet_airflow.assets import facts_loaded
from freshet_airflow.pipelines import pipeline_names
from freshet_airflow.validate_facts_operator import ValidateFactsOperator

DOCUMENTATION = """
Checks whether the facts of **{pipeline}** are what they must be: the expectations in the pipeline's file, and those
that follow from the pipeline itself (event id, lookups, ledger, completeness).

A run begins by itself when facts were loaded that have not been validated. It never holds up the stream.

| the task | means |
|---|---|
| succeeded | all expectations are met |
| skipped | no data: nothing was loaded since the last validation, or in the window that was asked for |
| failed | an expectation is not met: the end of the task's log says which, for how many facts, with examples |

| to | do |
|---|---|
| look at certain facts again | trigger this DAG, and choose batches, a time or everything |
| see details | follow the link on the page Warehouse freshness, or read `freshet.validation_result` |
| go on after a failure | fix the facts or the expectation, then trigger this DAG for the same batches |
"""

LARGEST_BATCH = 2**63 - 1  # of PostgreSQL's bigint

PARAMS = {
    "what": Param(
        "new",
        type="string",
        enum=["new", "batches", "loaded", "everything"],
        title="What",
        values_display={
            "new": "new: what was loaded since the last validation",
            "batches": "batches: the loads with the numbers below",
            "loaded": "loaded: what was loaded in the time below",
            "everything": "everything: all facts",
        },
        description="Which facts are to be validated.",
    ),
    "first_batch": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=LARGEST_BATCH,
        title="First batch",
        description="For batches: the first number.",
    ),
    "last_batch": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=LARGEST_BATCH,
        title="Last batch",
        description="For batches: the last number.",
    ),
    "loaded_from": Param(
        None, type=["null", "string"], format="date-time", title="Loaded from", description="For loaded: from when on."
    ),
    "loaded_until": Param(
        None, type=["null", "string"], format="date-time", title="Loaded until", description="For loaded: until when."
    ),
}

for pipeline in pipeline_names():
    with DAG(
        dag_id=f"validate_facts__{pipeline}",
        description=f"Validates the facts of {pipeline}.",
        doc_md=DOCUMENTATION.format(pipeline=pipeline),
        schedule=[facts_loaded(pipeline)],
        params=PARAMS,
        max_active_runs=1,
        tags=["freshet", "quality", pipeline],
        # An outage of the warehouse; facts that are not what they must be are not tried again.
        default_args={"retries": 5, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2.0},
    ):
        ValidateFactsOperator(task_id="validate", pipeline=pipeline)
