"""The operator that keeps a stream's Spark driver running."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, NoReturn

from airflow.sdk import BaseOperator, Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from psycopg2 import extensions

from freshet_airflow import driver_command, warehouse_connection
from freshet_airflow.driver_states import desired_state
from freshet_airflow.driver_watch import Ending, RestartPolicy
from freshet_airflow.stream_job_trigger import StreamJobTrigger
from spark_jobs.control import driver_requests
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.errors import PipelineDefinitionError, PlatformError
from spark_jobs.launch.detached_driver import STREAM_LOAD, DriverLaunch, attach_or_launch, find_driver, give_up
from spark_jobs.launch.session_process import log_tail
from spark_jobs.settings import home


class StreamJobOperator(BaseOperator):
    """Keeps the driver of a pipeline running: finds the living one or launches one, watches it, restarts it.

    The driver is a process of its own and lives on when this task is killed, cleared or marked, and when Airflow
    stops. The task waits deferred, and takes no worker meanwhile. It succeeds when the driver was drained, and fails
    when the driver was restarted more often than the policy allows, or ended before it took its pipeline over.

    Args:
        pipeline: name of the pipeline.
        warehouse_conn_id: Airflow connection of the warehouse; where it is not defined, FRESHET_WAREHOUSE_URL counts.
        spark_conn_id: Airflow connection of type spark.
        application: Python file that spark-submit runs.
        restart_policy: when to give up.
        watch: further arguments of `StreamJobTrigger`.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        warehouse_conn_id: str = warehouse_connection.DEFAULT_CONNECTION_ID,
        spark_conn_id: str = driver_command.DEFAULT_CONNECTION_ID,
        application: str = STREAM_LOAD,
        restart_policy: RestartPolicy | None = None,
        watch: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.warehouse_conn_id = warehouse_conn_id
        self.spark_conn_id = spark_conn_id
        self.application = application
        self.restart_policy = restart_policy or RestartPolicy()
        self.watch = watch or {}

    def execute(self, context: Context) -> None:
        """Find or launch the driver and wait for its end.

        Raises:
            AirflowSkipException: another run watches the driver already, and goes on doing so.
            AirflowFailException: the definition is faulty or may not be registered, or the driver can't be launched.
        """
        with closing(self.connect()) as connection:
            self._register(connection)
            found = find_driver(connection, self.pipeline, home())
            if found and desired_state(connection, self.pipeline) == "draining":
                self.log.info("The driver is draining. When it has stopped, another one will be launched.")
                self.wait_for(found, launch_again=True)
            if found and (watching := self._watching_run(context)):
                raise AirflowSkipException(
                    f"The driver of {self.pipeline} is already running, and the run {watching} watches it: look there. "
                    "To have the driver take a changed definition over, trigger this DAG with the action restart."
                )
            driver_requests.request_state(connection, self.pipeline, "running")
            found = self.attach_or_launch(connection)
        self._tell_lineage("START", context)
        self.wait_for(found)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the watched driver has ended."""
        try:
            self._go_on(context, event)
        except AirflowFailException:
            self._tell_lineage("FAIL", context)
            raise

    def _go_on(self, context: Context, event: dict[str, Any]) -> None:
        ending, restarts = Ending(event["ending"]), list(event["restarts"])
        if ending is Ending.STOPPED and event["carried"].get("launch_again"):
            self.execute(context)
        elif ending is Ending.STOPPED:
            self.log.info("The driver of epoch %s was drained and has stopped.", event["epoch"])
            self._tell_lineage("COMPLETE", context)
        elif ending is Ending.NOT_STARTED and not restarts and event["launch"]["pipeline"] == self.pipeline:
            # It never ran: what refused it will refuse it again.
            with closing(self.connect()) as connection:
                give_up(connection, self.pipeline, home(), DriverLaunch(**event["launch"]))
            self._fail("ended before it took its pipeline over", None)
        else:
            self._restart(ending, event, restarts)

    def _register(self, connection: extensions.connection) -> None:
        try:
            definition = load_definition(self.pipeline)
            register_pipeline(
                connection,
                definition.name,
                definition.freshness.target,
                definition.model_dump_json(by_alias=True),
            )
        except PipelineDefinitionError as error:
            raise AirflowFailException(str(error)) from error

    def connect(self) -> extensions.connection:
        """Connect to the warehouse, in autocommit mode."""
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        return warehouse_connection.session(url, f"freshet {self.task_id} {self.pipeline}")

    def attach_or_launch(self, connection: extensions.connection) -> DriverRecord | DriverLaunch:
        """The living driver, or the launch under way, or a new launch."""
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        try:
            return attach_or_launch(
                connection,
                self.pipeline,
                home(),
                lambda: driver_command.driver_command(self.pipeline, self.spark_conn_id, home(), url, self.application),
            )
        except PlatformError as error:
            raise AirflowFailException(str(error)) from error

    def wait_for(
        self, found: DriverRecord | DriverLaunch, restarts: list[float] | None = None, **carried: Any
    ) -> NoReturn:
        """Defer until the driver has ended; `resume` goes on then."""
        if isinstance(found, DriverLaunch):
            epoch, launch = None, found.to_json()
            log_file = home().driver_log(found.driver)
            told = "Driver %s, process %d on %s, is to take the stream up. Its log: %s"
            self.log.info(told, found.driver, found.process_id, found.host, log_file)
        else:
            epoch, launch = found.epoch, None
            self.log.info("Watching the driver of epoch %d, process %d on %s.", epoch, found.process_id, found.host)
            self.log.info("Its log: %s; Spark's UI: %s", found.log_file, found.spark_ui_url)
        self.defer(
            trigger=StreamJobTrigger(
                pipeline=self.pipeline,
                warehouse_conn_id=self.warehouse_conn_id,
                epoch=epoch,
                launch=launch,
                restarts=restarts or [],
                policy=asdict(self.restart_policy),
                carried=carried,
                **self.watch,
            ),
            method_name="resume",
        )

    def _tell_lineage(self, state: str, context: Context) -> None:
        """Tell a lineage server, if there is one, of the stream's run; the stream can do without."""
        if find_spec("airflow.providers.openlineage") is None:
            return
        try:
            from openlineage.client.event_v2 import RunState

            from freshet_airflow.stream_lineage import tell

            tell(RunState(state), self.pipeline, self.warehouse_conn_id, context)
        except Exception as error:
            self.log.warning("The stream's lineage could not be told (%s): %s", state, error)

    def _watching_run(self, context: Context) -> str | None:
        """Another run of this DAG that waits for the driver's end; None: this one is to.

        Each run that waits takes one of the DAG's active runs for as long as the stream runs, and a drain needs one.
        Only a deferred task counts: of two that are at work at once each may be about to leave, but not both should.
        """
        this = context["ti"]
        states = this.get_task_states(dag_id=this.dag_id, task_ids=[self.task_id])
        return next(
            (
                run_id
                for run_id, tasks in states.items()
                if run_id != this.run_id and tasks.get(self.task_id) == TaskInstanceState.DEFERRED
            ),
            None,
        )

    def _restart(self, ending: Ending, event: dict[str, Any], restarts: list[float]) -> NoReturn:
        now = time.time()
        error = event["error"]
        self.log.warning("The driver of epoch %s has ended (%s): %s", event["epoch"], ending.value, error)
        if ending is Ending.NOT_STARTED:
            with closing(self.connect()) as connection:
                give_up(connection, self.pipeline, home(), DriverLaunch(**event["launch"]))
        if not self.restart_policy.allows(restarts, now):
            minutes = self.restart_policy.window_seconds / 60
            self._fail(f"was restarted {self.restart_policy.most} times within {minutes:.0f} minutes", error)
        with closing(self.connect()) as connection:
            found = self.attach_or_launch(connection)
        self.wait_for(found, [*self.restart_policy.recent(restarts, now), now], **event["carried"])

    def _fail(self, what: str, error: str | None) -> NoReturn:
        with closing(self.connect()) as connection:
            log_file = home().driver_log(driver_requests.driver_of(connection, self.pipeline))
        last = f" Its last error: {error}." if error else ""
        raise AirflowFailException(
            f"The driver of {self.pipeline} {what}.{last} "
            f"Once the cause is fixed, clear this task. The end of its log {log_file}:\n{log_tail(log_file)}"
        )
