"""The operator that deletes what the warehouse keeps no longer, and closes what was cut off."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow.sdk import BaseOperator, Context

from freshet_airflow import warehouse_connection
from spark_jobs.validation.records import end_cut_off


class MaintainWarehouseOperator(BaseOperator):
    """Prunes the control schema by the `retention` of every registered pipeline; closes what was cut off.

    Args:
        warehouse_conn_id: Airflow connection of the warehouse; where it is not defined, FRESHET_WAREHOUSE_URL counts.
    """

    def __init__(self, *, warehouse_conn_id: str = warehouse_connection.DEFAULT_CONNECTION_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.warehouse_conn_id = warehouse_conn_id

    def execute(self, context: Context) -> dict[str, dict[str, int]]:
        """Prune; what was deleted is the result."""
        # Not at the top: the DAG files, which are read again and again, lead here, and these import numpy and pyarrow.
        from spark_jobs.ledger.retention import prune_all
        from spark_jobs.reprocessing.run_ledger import abandon_dead

        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        with closing(warehouse_connection.session(url, f"freshet {self.task_id}")) as connection:
            if ended := end_cut_off(connection):
                self.log.warning("%d validations had been cut off: they are marked so.", ended)
            with connection.cursor() as cursor:
                if abandoned := abandon_dead(cursor):
                    self.log.warning("The drivers of %d reprocessing runs have died: they are abandoned.", abandoned)
            pruned = prune_all(connection)
        for pipeline, counts in pruned.items():
            told = ", ".join(f"{table} {count:,}" for table, count in counts.items()) or "nothing"
            self.log.info("%s: deleted %s", "noted changes" if pipeline == "*" else pipeline, told)
        return {pipeline: dict(counts) for pipeline, counts in pruned.items()}
