"""DAG maintain_warehouse: deletes what the warehouse keeps no longer."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable
from freshet_airflow.maintain_warehouse_operator import MaintainWarehouseOperator

DOCUMENTATION = """
Deletes old rows of the control schema: the ledger, finished runs, validations, alerts, drivers, noted changes of master
data, and held tuples of the kinds that a pipeline does not keep for ever. How long each is kept says the key
`retention` of a pipeline's file.

Facts and landed files are never deleted. The sums of what goes are kept, so the balance of each pipeline still holds;
of a held tuple stays that it arrived (`freshet.pruned_tuple`): sent again, it is a duplicate. It can run at any time,
beside the streams.
"""

with DAG(
    dag_id="maintain_warehouse",
    description="Deletes what the warehouse keeps no longer.",
    doc_md=DOCUMENTATION,
    schedule=CronTriggerTimetable("20 3 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["freshet", "maintenance"],
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
):
    MaintainWarehouseOperator(task_id="prune")
