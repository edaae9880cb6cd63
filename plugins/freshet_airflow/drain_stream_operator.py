"""The operator that lets a stream load what has landed and stop."""

from __future__ import annotations

from contextlib import closing

from airflow.sdk import Context

from freshet_airflow.driver_states import desired_state
from freshet_airflow.stream_job_operator import StreamJobOperator
from spark_jobs.control import driver_requests
from spark_jobs.launch.detached_driver import find_driver
from spark_jobs.settings import home


class DrainStreamOperator(StreamJobOperator):
    """Asks the driver of a pipeline to drain, and succeeds when it has stopped.

    A driver that dies while it drains is restarted like any other, and drains on. Where none lives there is nothing
    to wait for. The run that watches the driver ends with success as well.
    """

    def execute(self, context: Context) -> None:
        """Ask for the drain and wait for its end."""
        with closing(self.connect()) as connection:
            if desired_state(connection, self.pipeline) is not None:
                driver_requests.request_state(connection, self.pipeline, "draining")
            found = find_driver(connection, self.pipeline, home())
        if found is None:
            self.log.info("No driver of %s runs: there is nothing to drain.", self.pipeline)
        else:
            self.wait_for(found)
