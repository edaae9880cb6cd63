"""The operator that forgets held tuples which no try will make facts of, and the form that chooses them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow.sdk import BaseOperator, Context, Param

from freshet_airflow import warehouse_connection
from freshet_airflow.reprocessing_form import FILTER, asked_by, moment
from spark_jobs.definition.fates import PLACES, REJECTED

FORM = {
    "places": Param(
        [REJECTED.place],
        type="array",
        items={"type": "string", "enum": list(PLACES)},
        minItems=1,
        uniqueItems=True,
        examples=list(PLACES),
        title="Places",
        description="From where tuples are forgotten.",
    ),
    **FILTER,
    "until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Held until",
        description="Only tuples that were held then already. Empty: when the run was asked for.",
    ),
}


class ForgetHeldOperator(BaseOperator):
    """Deletes the held tuples that the run's form chooses, for good. How many there were is the result.

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

    def execute(self, context: Context) -> int:
        """Delete them; that they arrived, and who wanted them gone, is noted.

        Raises:
            AirflowFailException: the form's time is none.
        """
        # Not at the top: the DAG files, which are read again and again, lead here.
        from spark_jobs.reprocessing.held_tuples import HeldFilter, forget

        form = context["params"]
        named = {name: form[name] or "" for name in ("reason", "text")}
        until = moment(form, "until") or context["dag_run"].run_after
        chosen = HeldFilter(self.pipeline, form["places"], **named, since=moment(form, "arrived_from"), until=until)
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        with closing(warehouse_connection.session(url, f"freshet {self.task_id} {self.pipeline}")) as connection:
            count = forget(connection, chosen, asked_by(context) or "a schedule", context["run_id"])
        self.log.info("%d held tuples of %s are forgotten.", count, self.pipeline)
        return count
