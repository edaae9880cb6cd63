"""The operator that decides, before Spark is started, whether there is anything to reprocess."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException
from psycopg2 import extensions

from freshet_airflow import warehouse_connection
from spark_jobs.definition import load_definition
from spark_jobs.reprocessing.due_tuples import due_now

_MANUAL = "manual"


class BacklogCheckOperator(BaseOperator):
    """Skips the run, and says why, where no held tuple is due or the stream needs the machine for itself.

    A run that was triggered by hand is never skipped: it does what it was asked. Before it decides, runs of the job
    that have died are marked as abandoned, so that none seems to go on for ever where nothing more becomes due.

    Args:
        pipeline: name of the pipeline.
        warehouse_conn_id: Airflow connection of the warehouse; where it is not defined, FRESHET_WAREHOUSE_URL counts.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        warehouse_conn_id: str = warehouse_connection.DEFAULT_CONNECTION_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.warehouse_conn_id = warehouse_conn_id

    def execute(self, context: Context) -> None:
        """Look into the warehouse.

        Raises:
            AirflowSkipException: there is nothing to do now.
        """
        if context["dag_run"].run_type == _MANUAL:
            self.log.info("Triggered by hand: nothing is checked.")
            return
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        with closing(warehouse_connection.session(url, f"freshet {self.task_id} {self.pipeline}")) as connection:
            self._check(connection)

    def _check(self, connection: extensions.connection) -> None:
        # Not at the top: the DAG files, which are read again and again, lead here, and these import numpy and pyarrow.
        from spark_jobs.ledger.status.overload import stream_load
        from spark_jobs.reprocessing.run_ledger import abandon_dead

        definition = load_definition(self.pipeline)
        with connection.cursor() as cursor:
            if abandoned := abandon_dead(cursor, self.pipeline):
                self.log.warning("The drivers of %d runs have died: they are marked as abandoned.", abandoned)
            first_pause = definition.reprocessing.first_pause
            due = due_now(cursor, self.pipeline, definition.lookups, first_pause, definition.shape.late_window)
        if not due:
            raise AirflowSkipException("No held tuple is due.")
        load = stream_load(connection, self.pipeline)
        if load.overloaded:
            raise AirflowSkipException(f"Tuples are due, but the stream has no time to spare: {load.reason}.")
        self.log.info("Tuples are due, and the stream has time to spare.")
