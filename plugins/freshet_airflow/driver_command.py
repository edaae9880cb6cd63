"""How drivers are launched: spark-submit, configured by an Airflow connection of type spark."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from spark_jobs.definition import load_definition, pipelines_of
from spark_jobs.errors import PlatformError
from spark_jobs.launch.detached_driver import STREAM_LOAD, DriverCommand, driver_environment
from spark_jobs.settings import Home
from spark_jobs.source.connections import connection_variable

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from spark_jobs.definition import PipelineDefinition

DEFAULT_CONNECTION_ID = "spark_default"


def driver_command(
    pipeline: str, connection_id: str, home: Home, warehouse_url: str, application: str = STREAM_LOAD
) -> DriverCommand:
    """What launches the pipeline's driver on the cluster that the connection names.

    Args:
        pipeline: name of the pipeline, the application's only argument.
        connection_id: Airflow connection of type spark; its host is the master, `local[*]` for example.
        home: the installation on this host.
        warehouse_url: libpq URL of the warehouse; it goes into the environment only.
        application: Python file that spark-submit runs.

    Raises:
        PlatformError: there is no such connection, or it asks for a driver inside the cluster.
        PipelineDefinitionError: the pipeline's definition is wrong.
    """
    # Not at the top: the file of the streams' DAGs, which is read again and again, has no other need of the provider.
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    if not is_defined(connection_id):
        raise undefined(connection_id)
    driver = load_definition(pipeline).driver_name
    hook = SparkSubmitHook(conn_id=connection_id, name=f"freshet-{driver}", application_args=[pipeline])
    environment = submit_environment(hook, home, warehouse_url)
    for definition in pipelines_of(driver).values():
        environment |= source_environment(definition)
    return DriverCommand(hook._build_spark_submit_command(application), environment)


def source_environment(definition: PipelineDefinition) -> dict[str, str]:
    """Environment variables with the connections that the pipeline asks for, as far as Airflow has them."""
    found = {}
    for connection in definition.connections:
        with suppress(AirflowNotFoundException):  # the driver says what is missing
            found[connection_variable(connection)] = BaseHook.get_connection(connection).as_json()
    return found


def is_defined(connection_id: str) -> bool:
    """Whether Airflow has a connection of this name."""
    try:
        BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        return False
    return True


def undefined(connection_id: str) -> PlatformError:
    """The error to raise where it has none: the provider's hook would submit to YARN."""
    return PlatformError(
        f"Airflow does not know where Spark runs. Define the connection {connection_id}: "
        "type spark, host local[*] or spark://HOST with the master's port."
    )


def submit_environment(hook: SparkSubmitHook, home: Home, warehouse_url: str) -> dict[str, str]:
    """The environment in which the hook's spark-submit is to run.

    Raises:
        PlatformError: the hook's connection asks for a driver inside the cluster.
    """
    if hook._connection["deploy_mode"] == "cluster":
        raise PlatformError(
            f"The connection {hook._conn_id} asks for deploy mode cluster. Freshet's drivers run beside Airflow, "
            "which watches their processes: take deploy-mode out of the connection's extra, or set it to client."
        )
    environment = driver_environment(home, warehouse_url)
    if hook._connection["master"].startswith("local"):
        # Spark's UI listens on all addresses unless told otherwise; nothing outside this machine takes part here.
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environment
