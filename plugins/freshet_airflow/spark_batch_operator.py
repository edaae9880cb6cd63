"""The operator that runs a Spark batch job of a pipeline, and waits for its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from freshet_airflow import driver_command, warehouse_connection
from spark_jobs.definition import load_definition
from spark_jobs.settings import home

BATCH_CONNECTION_ID = "spark_batch"
"""Airflow connection for batch jobs, say to a cluster's other queue. It need not be defined."""

# How a job ends that fails: `SchemaMismatchError: ...`, perhaps on several lines.
_ERROR_LINE = re.compile(r"(\w+\.)*\w*(Error|Exception|Interrupt): ")
_TOLD_WITHOUT_ERROR_LINE = 20


class SparkBatchOperator(SparkSubmitOperator):
    """Runs a main of Freshet by spark-submit. The task's log shows the driver's output.

    The warehouse's URL reaches the driver through its environment alone, when the task runs. The driver ends with the
    task: a batch job loses nothing by that, and the next one goes on.

    Args:
        pipeline: name of the pipeline, the application's first argument.
        application: Python file that spark-submit runs.
        arguments: further arguments, templated; or what makes them of the run's context.
        spark_conn_id: Airflow connection of type spark; where it is not defined, `spark_default` counts.
        warehouse_conn_id: Airflow connection of the warehouse; where it is not defined, FRESHET_WAREHOUSE_URL counts.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        application: str,
        arguments: Sequence[str] | Callable[[Context], Sequence[str]] = (),
        spark_conn_id: str = BATCH_CONNECTION_ID,
        warehouse_conn_id: str = warehouse_connection.DEFAULT_CONNECTION_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=application,
            application_args=[pipeline, *(() if callable(arguments) else arguments)],
            conn_id=spark_conn_id,
            name=f"freshet-{pipeline}",
            durable=False,  # there is nothing to connect to again: the driver ends with the task
            **kwargs,
        )
        self.pipeline = pipeline
        self.warehouse_conn_id = warehouse_conn_id
        self.arguments_of = arguments if callable(arguments) else None

    def execute(self, context: Context) -> None:
        """Run the job.

        Raises:
            AirflowException: it failed; the message ends with the job's own error.
            AirflowFailException: the run's form was filled in wrongly.
            PlatformError: Airflow does not know where Spark runs.
        """
        if self.arguments_of is not None:
            self.application_args = [self.pipeline, *self.arguments_of(context)]
        hook = self._hook = self._get_hook()
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        environment = driver_command.submit_environment(hook, home(), url)
        environment |= driver_command.source_environment(load_definition(self.pipeline))
        try:
            # Not as the hook's env_vars: on some masters those become arguments of spark-submit.
            hook.submit(self.application, env=environment)
        except AirflowException as error:
            raise AirflowException(
                f"The job {self.application} of {self.pipeline} failed:\n{_told(hook._last_submit_log_lines)}"
            ) from error

    def _get_hook(self) -> SparkSubmitHook:
        if not driver_command.is_defined(self._conn_id):
            self._conn_id = driver_command.DEFAULT_CONNECTION_ID
            if not driver_command.is_defined(self._conn_id):
                raise driver_command.undefined(self._conn_id)
        return super()._get_hook()


def _told(output: Iterable[str]) -> str:
    """The job's error as it told it: from the last line that begins like one."""
    lines = list(output)
    begins = [number for number, line in enumerate(lines) if _ERROR_LINE.match(line)]
    return "\n".join(lines[begins[-1] :] if begins else lines[-_TOLD_WITHOUT_ERROR_LINE:])
