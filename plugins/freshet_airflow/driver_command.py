"""How a stream's driver is launched: spark-submit, configured by an Airflow connection of type spark."""

from __future__ import annotations

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from spark_jobs.errors import PlatformError
from spark_jobs.platform.detached_driver import DriverCommand, driver_environment
from spark_jobs.settings import PROJECT_ROOT, Home

DEFAULT_CONNECTION_ID = "spark_default"
STREAM_LOAD = str(PROJECT_ROOT / "spark_jobs" / "stream_load.py")


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
    """
    # Not at the top: the DAG files, which are read again and again, lead here.
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    try:
        BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        # The hook would submit to YARN.
        raise PlatformError(
            f"Airflow does not know where Spark runs. Define the connection {connection_id}: "
            "type spark, host local[*] or spark://HOST with the master's port."
        ) from None
    hook = SparkSubmitHook(conn_id=connection_id, name=f"freshet-{pipeline}", application_args=[pipeline])
    if hook._connection["deploy_mode"] == "cluster":
        raise PlatformError(
            f"The connection {connection_id} asks for deploy mode cluster. A stream's driver runs beside Airflow, "
            "which watches its process: take deploy-mode out of the connection's extra, or set it to client."
        )
    environment = driver_environment(home, warehouse_url)
    if hook._connection["master"].startswith("local"):
        # Spark's UI listens on all addresses unless told otherwise; nothing outside this machine takes part here.
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return DriverCommand(hook._build_spark_submit_command(application), environment)
