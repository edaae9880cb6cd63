"""The command line of a driver, from an Airflow connection."""

import json
from pathlib import Path

import pytest
import yaml
from freshet_airflow.driver_command import driver_command

from spark_jobs.errors import PlatformError
from spark_jobs.launch.detached_driver import STREAM_LOAD, DriverCommand
from spark_jobs.settings import PIPELINES_VARIABLE, Home

URL = "postgresql://loader:secret@warehouse/facts"


def define(monkeypatch: pytest.MonkeyPatch, **extra: object) -> None:
    connection = {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": json.dumps(extra)}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))


def command_of(connection_id: str, tmp_path: Path) -> DriverCommand:
    return driver_command("orders", connection_id, Home(tmp_path), URL)


def test_the_driver_is_submitted_to_the_master_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    define(monkeypatch)
    command = command_of("cluster", tmp_path)
    assert command.arguments[0] == "spark-submit"
    assert command.arguments[command.arguments.index("--master") + 1] == "spark://master:7077"
    assert command.arguments[-2:] == [STREAM_LOAD, "orders"]
    assert "SPARK_LOCAL_IP" not in command.environment


def test_a_local_driver_listens_on_loopback_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[*,4]"}))
    command = command_of("spark_default", tmp_path)
    assert command.arguments[command.arguments.index("--master") + 1] == "local[*,4]"
    assert command.environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_the_warehouse_is_in_the_environment_and_not_on_the_command_line(tmp_path: Path) -> None:
    command = command_of("spark_default", tmp_path)
    assert "secret" not in " ".join(command.arguments)
    assert command.environment["FRESHET_WAREHOUSE_URL"] == URL


def test_an_undefined_connection_is_an_error_and_not_yarn(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="Define the connection nowhere: type spark"):
        command_of("nowhere", tmp_path)


def test_a_driver_inside_the_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    define(monkeypatch, **{"deploy-mode": "cluster"})
    with pytest.raises(PlatformError, match="set it to client"):
        command_of("cluster", tmp_path)


def test_a_source_s_connection_is_in_the_environment_and_not_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_CLICKS", "kafka://me:secret@/")
    source = {
        "kafka": {"servers": "localhost:9092", "topic": "clicks", "connection": "kafka_clicks"},
        "format": "json",
        "schema": "id bigint, at timestamp",
        "event_id": ["id"],
        "event_time": "at",
    }
    fact = {"table": "warehouse.fact_clicks", "columns": {"id": "id"}}
    (tmp_path / "clicks.yaml").write_text(yaml.safe_dump({"name": "clicks", "source": source, "fact": fact}))
    command = driver_command("clicks", "spark_default", Home(tmp_path), URL)
    assert "secret" not in " ".join(command.arguments)
    assert json.loads(command.environment["AIRFLOW_CONN_KAFKA_CLICKS"])["password"] == "secret"
