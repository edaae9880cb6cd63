"""`freshet up`: brings the whole platform up, streams a workload through it, drains it, and proves what was loaded."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

from psycopg2.errors import UndefinedTable
from rich.console import Console
from rich.markup import escape
from sqlalchemy import make_url

from spark_jobs.control import driver_requests
from spark_jobs.control.migration import migrate
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition, load_definitions
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.driver.session import DEFAULT_MASTER
from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import (
    FreshetError,
    PipelineDefinitionError,
    PlatformError,
    SchemaMismatchError,
    WarehouseUnavailableError,
)
from spark_jobs.launch.detached_driver import (
    STREAM_LOAD,
    DriverCommand,
    attach_or_launch,
    driver_environment,
    end_drivers,
    note_stopped,
)
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.local import workload_process
from spark_jobs.local.airflow_process import (
    ADMINISTRATOR,
    EmbeddedAirflow,
    administrator_password,
    password_file,
    stop_leftover_airflow,
)
from spark_jobs.local.bad_day import BadDay
from spark_jobs.local.bad_day_plan import DEFAULT_DURATION, WARM_UP_RATE, Overload, write_overload_pipelines
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.kafka_pipelines import kafka_broker, running_with_topics, write_kafka_pipelines
from spark_jobs.local.live_status import show_once
from spark_jobs.local.streaming import Course, Streaming, uneventful
from spark_jobs.local.terminal_progress import StartupSteps
from spark_jobs.local.warehouse_server import PATIENCE, is_embedded, warehouse
from spark_jobs.local.warehouse_users import READING, VALIDATING, admit_users, as_user
from spark_jobs.local.workload_process import WorkloadProcesses
from spark_jobs.private_files import make_private
from spark_jobs.proof.verification import verify
from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, WAREHOUSE_URL_VARIABLE, Home, home, pipelines_folder
from spark_jobs.source.files.landing_look import ONE_LOOK, LandingLook
from spark_jobs.warehouse.connection import connect
from spark_jobs.workload.tpch import seed
from spark_jobs.workload.tpch_files import check_scale

INTERRUPTED_STATUS = 130
_SPARK_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"
# What the page and the validations come as, see freshet_airflow/warehouse_connection.py.
_USERS = {"AIRFLOW_CONN_FRESHET_READER": READING, "AIRFLOW_CONN_FRESHET_VALIDATOR": VALIDATING}
# One core for what is not urgent, which leaves the others to the streams.
BATCH_MASTER = "local[1,4]"


def run_up(
    duration: timedelta | None,
    scale: float,
    port: int,
    *,
    console: Console,
    rate: float,
    overload: float | None = None,
    figures_file: Path | None = None,
    kafka: bool = False,
    with_workload: bool = True,
) -> int:
    """Bring up PostgreSQL, Airflow and the streams of all pipelines, until Ctrl-C or the end of the duration.

    Then the workload is stopped, the streams are drained through Airflow, every process that was started is ended,
    and the load of each pipeline is proved. A second Ctrl-C cuts the drain short: what has landed by then is loaded
    by the next `up` in the same home.

    Args:
        duration: how long the workload runs; None: until SIGINT or SIGTERM.
        scale: TPC-H scale factor.
        port: loopback port of Airflow's UI.
        console: where progress, the live table and the proofs are shown.
        rate: mean number of orders per second.
        overload: make it a bad day, with a burst of this many times what the streams can carry, see `bad_day`.
        figures_file: where a bad day's figures are written as JSON; None: they are only shown.
        kafka: orders and their lines come from topics of a broker, which is brought up too, not as files.
        with_workload: without it neither TPC-H nor the pipelines that load it are there, only the user's own.

    Returns:
        exit status: 0 only if nothing failed, every proof holds, and all that landed is loaded, unless the drain
        was cut short; a bad day must have been stood, too.

    Raises:
        FreshetError: a step of the start-up failed; everything that had been started is ended.
    """
    check_scale(scale)
    plan = None if overload is None else Overload(overload, DEFAULT_DURATION if duration is None else duration)
    definitions = load_definitions() if with_workload else _own(load_definitions())
    with _only_one(home()), _ending_cleans_up():
        try:
            broker = kafka_broker(home())  # also where there is none: one that was left behind is ended
            if plan is None:
                pipelines, course, day = pipelines_folder(), uneventful(duration), None
                if kafka:
                    pipelines, definitions = _of_topics(broker.servers)
            else:
                pipelines, definitions = _overloaded(scale, console)
                day = BadDay(plan, definitions, home(), rate, console)
                course = day.run
            of_streams = broker if kafka else None
            workload = WorkloadProcesses(
                *(home(), definitions.keys(), scale, rate if day is None else WARM_UP_RATE * rate),
                steady=day is not None,
                servers=of_streams.servers if of_streams else None,
            )
            status = _Up(home(), definitions, pipelines, workload, of_streams, scale, port, console).run(course)
            return status if day is None or _show(day, console, figures_file) else 1
        except KeyboardInterrupt:
            console.print("Interrupted; everything is stopped.")
            return INTERRUPTED_STATUS


def _of_topics(servers: str) -> tuple[Path, dict[str, PipelineDefinition]]:
    """The folder of the pipelines that read topics of these brokers, and what they are."""
    pipelines = home().kafka_pipelines
    write_kafka_pipelines(pipelines_folder(), pipelines, servers)
    return pipelines, load_definitions(pipelines)


def _overloaded(scale: float, console: Console) -> tuple[Path, dict[str, PipelineDefinition]]:
    """The folder of the pipelines of a bad day, and what they are."""
    pipelines = home().overload_pipelines
    write_overload_pipelines(pipelines_folder(), pipelines, scale)
    _tell_of(pipelines, console)
    return pipelines, load_definitions(pipelines)


class _Up:
    """One run of `freshet up`.

    Args:
        installation: the home.
        definitions: the pipelines.
        pipelines: the folder in which they are defined.
        workload: started with the streams.
        broker: of Kafka, which they read from; None: they read files.
        scale: TPC-H scale factor.
        port: loopback port of Airflow's UI.
        console: where everything is shown.
    """

    def __init__(
        self,
        installation: Home,
        definitions: Mapping[str, PipelineDefinition],
        pipelines: Path,
        workload: WorkloadProcesses,
        broker: KafkaBroker | None,
        scale: float,
        port: int,
        console: Console,
    ) -> None:
        self._home = installation
        self._definitions = definitions
        self._pipelines = pipelines
        self._scale = scale
        self._port = port
        self._console = console
        self._workload = workload
        self._broker = broker

    def run(self, course: Course) -> int:
        """All phases, one after the other; the exit status.

        Args:
            course: what happens while the streams run.
        """
        # A killed `up` leaves these behind. Its drivers too: Airflow finds them and goes on with them.
        stop_leftover_airflow(self._home)
        self._workload.stop()
        _check_port(self._port)
        with contextlib.ExitStack() as stack:
            with StartupSteps(self._console) as steps:
                with steps.step("PostgreSQL"):
                    url = stack.enter_context(warehouse(self._home))
                    server = stack.enter_context(EmbeddedPostgres(self._home.postgres).use())
                    stack.enter_context(server.kept_running())
                if self._broker is not None:
                    with steps.step("Kafka"):
                        stack.enter_context(running_with_topics(self._broker))
                airflow = EmbeddedAirflow(self._home, server, self._port, self._environment(url))
                stack.callback(self._stop_processes, airflow, url)
                self._bring_up(steps, airflow, url)
            airflow.keep_running()
            streaming = Streaming(self._home, self._definitions, airflow, url, self._workload, self._console)
            try:
                end = streaming.run(course)
                with self._console.status("Ending all processes ..."):
                    self._stop_processes(airflow, url)
                holds = self._prove(url, complete=not end.cut_short)
            except FreshetError:
                server.check()  # what it comes of, perhaps
                raise
        if end.problem is not None:
            self._console.print(f"[bold red]Error:[/] {escape(str(end.problem))}", soft_wrap=True, highlight=False)
        return 0 if holds and end.problem is None else 1

    def _bring_up(self, steps: StartupSteps, airflow: EmbeddedAirflow, url: str) -> None:
        """Airflow's database and the warehouse's data are got ready side by side: each keeps one core busy."""
        with ThreadPoolExecutor(max_workers=1) as beside:
            seeding = beside.submit(self._prepare_warehouse, steps, url)
            password, is_new = administrator_password(self._home)
            with steps.step("Airflow's database"):
                airflow.prepare()
            if seeding.done():
                seeding.result()  # a wrong scale is reported before the rest of the start-up
            with steps.step("Airflow"):
                airflow.start()
                airflow.wait_until_healthy()
            seeding.result()
        file = password_file(self._home)
        told = f"password {password} (kept in {file})" if is_new else f"password in {file}"
        self._console.print(f"Airflow: {airflow.url}  user {ADMINISTRATOR}, {told}", highlight=False, soft_wrap=True)
        warehouse = make_url(url).render_as_string(hide_password=True)
        self._console.print(f"Warehouse: {escape(warehouse)}", highlight=False, soft_wrap=True)

    def _prepare_warehouse(self, steps: StartupSteps, url: str) -> None:
        for definition in self._definitions.values():
            sources = definition.streams.values()
            for landing in (landing_folder(each, self._home) for each in sources if each.kind.name == "files"):
                if landing.is_relative_to(self._home.root):
                    landing.mkdir(parents=True, exist_ok=True)
        with steps.step("Warehouse schema"):
            migrate(url)
        if workload_process.OF_TPCH & self._definitions.keys():
            with steps.step(f"TPC-H master data, scale {self._scale:g}"):
                seed(url, self._home, self._scale, steps.report)
        if is_embedded():
            admit_users(url, self._definitions.values())
        self._launch_drivers(url)

    def _launch_drivers(self, url: str) -> None:
        """Launch what needs nothing that only Airflow knows; its runs find these drivers when it is there."""
        if _SPARK_CONNECTION in os.environ:
            return
        environment = driver_environment(self._home, url)
        environment |= {PIPELINES_VARIABLE: str(self._pipelines), "SPARK_LOCAL_IP": "127.0.0.1"}
        submit = ["spark-submit", "--master", DEFAULT_MASTER, STREAM_LOAD]
        with contextlib.closing(connect(url)) as connection:
            connection.autocommit = True
            of_airflow = {each.driver_name for each in self._definitions.values() if each.connections}
            for name, definition in self._definitions.items():
                if definition.driver_name in of_airflow:  # all that share it, too: its one environment serves them all
                    continue
                with contextlib.suppress(PipelineDefinitionError):  # Airflow's run tells it
                    register_pipeline(
                        connection, name, definition.freshness.target, definition.model_dump_json(by_alias=True)
                    )
                    driver_requests.request_state(connection, name, "running")
                    attach_or_launch(connection, name, self._home, partial(DriverCommand, [*submit, name], environment))

    def _prove(self, url: str, *, complete: bool) -> bool:
        """Prove and show what was loaded; whether the law holds for all pipelines, and all is loaded if it must be."""
        holds = True
        for definition in self._definitions.values():
            try:
                proof = verify(definition, url, self._home)
            except SchemaMismatchError as error:
                self._console.print(f"[bold red]No proof:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
                holds = False
                continue
            holds = holds and proof.holds and not (complete and proof.pending_files)
            self._console.print(proof.render())
        with contextlib.closing(connect(url)) as connection:
            show_once(self._console, read_status(connection, look=LandingLook(self._home, ONE_LOOK)))
        return holds

    def _stop_processes(self, airflow: EmbeddedAirflow, url: str) -> None:
        self._workload.stop()
        airflow.stop()
        # Without Airflow and the server they would be on their own.
        end_drivers(self._home)
        # A warehouse that is away, or not migrated yet, keeps nothing from ending.
        with (
            contextlib.suppress(UndefinedTable, WarehouseUnavailableError),
            contextlib.closing(connect(url, patience=PATIENCE)) as connection,
        ):
            note_stopped(connection, self._definitions)

    def _environment(self, url: str) -> dict[str, str]:
        spark = json.dumps({"conn_type": "spark", "host": DEFAULT_MASTER})
        batch = json.dumps({"conn_type": "spark", "host": BATCH_MASTER})
        return {
            HOME_VARIABLE: str(self._home.root),
            WAREHOUSE_URL_VARIABLE: url,
            PIPELINES_VARIABLE: str(self._pipelines),
            _SPARK_CONNECTION: os.environ.get(_SPARK_CONNECTION, spark),
            "AIRFLOW_CONN_SPARK_BATCH": os.environ.get("AIRFLOW_CONN_SPARK_BATCH", batch),
            **({name: os.environ.get(name, as_user(url, of)) for name, of in _USERS.items()} if is_embedded() else {}),
        }


def _own(definitions: Mapping[str, PipelineDefinition]) -> dict[str, PipelineDefinition]:
    """The pipelines that the workload writes nothing for.

    Raises:
        PlatformError: there are none.
    """
    own = {name: definition for name, definition in definitions.items() if name not in workload_process.PIPELINES}
    if not own:
        raise PlatformError(
            f"Without the workload there is nothing to load: {pipelines_folder()} has no pipeline of your own. "
            "`freshet new PIPELINE --from FILE` writes one from a sample of its events."
        )
    return own


def _tell_of(pipelines: Path, console: Console) -> None:
    console.print(
        f"A bad day. Its pipelines get little memory, and limits of reading master data: {pipelines}. Those of several "
        "streams take no part.",
        highlight=False,
        soft_wrap=True,
    )


def _show(day: BadDay, console: Console, figures_file: Path | None) -> bool:
    """Show what was measured on a bad day; whether it was stood."""
    problems = list(day.figures.problems())
    console.print(day.figures.table())
    for problem in problems:
        console.print(f"[bold red]Not withstood:[/] {escape(problem)}", soft_wrap=True, highlight=False)
    if figures_file is not None:
        figures_file.write_text(day.figures.to_json() + "\n")
    return not problems


@contextlib.contextmanager
def _only_one(installation: Home) -> Iterator[None]:
    make_private(installation)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(installation.root / "up.lock", wait=False))
        except BlockingIOError:
            raise PlatformError(
                f"`freshet up` is already running in {installation.root}. Stop it, or choose another {HOME_VARIABLE}."
            ) from None
        yield


@contextlib.contextmanager
def _ending_cleans_up() -> Iterator[None]:
    """SIGTERM ends the start-up as Ctrl-C does: with everything cleaned up. Closing the terminal counts as SIGTERM."""
    previous = {signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler)}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # otherwise nohup wants it ignored
        previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PlatformError(
                f"Port {port} is not available: {error.strerror}. Choose another with --port."
            ) from error
