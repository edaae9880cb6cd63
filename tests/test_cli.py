from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sysconfig
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE

COMMANDS = ["up", "load", "status", "verify", "validate", "retire", "migrate", "seed", "calibrate", "generate"]
HEAVY_MODULES = {"pyspark", "airflow", "numpy", "pyarrow", "pydantic", "psycopg2", "numba", "alembic", "pandas"}


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no warehouse that comes from outside."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.delenv(WAREHOUSE_URL_VARIABLE, raising=False)
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str, str]:
    """Exit status, output and error output of a command, in this process."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.stdout, result.stderr


def test_freshet_alone_shows_its_commands() -> None:
    status, output, _ = invoke()
    assert status == 0
    for command in COMMANDS:
        assert command in output


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    status, output, _ = invoke(command, "--help")
    assert status == 0
    assert f"freshet {command}" in output or f"root {command}" in output


def test_help_needs_none_of_the_heavy_modules() -> None:
    program = "import sys, spark_jobs.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [f"{sysconfig.get_path('scripts')}/python", "-c", program], capture_output=True, text=True, check=True
    )
    assert not HEAVY_MODULES & set(loaded.stdout.split())


@pytest.mark.parametrize("command", ["load", "verify", "validate"])
def test_a_wrong_pipeline_is_told_with_the_names_there_are(command: str) -> None:
    status, _, error = invoke(command, "ordres")
    assert status == 2
    assert "order_lines" in error
    assert "orders" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate", "--for", "5"], "is not a duration"),
        (["generate", "--tick", "soon"], "is not a duration"),
        (["generate", "--rate", "0"], "rate 0"),
        (["generate", "--bad-share", "2"], "bad share 2"),
        (["generate"], "Run `freshet seed` first"),
        (["seed", "--scale", "0"], "scale 0 is not allowed"),
        (["verify", "orders"], "There is no warehouse"),
        (["up", "--for", "2"], "is not a duration"),
        (["up", "--scale", "0"], "scale 0 is not allowed"),
        (["up", "--port", "70000"], "65535"),
        (["up", "--no-workload"], "no pipeline of your own"),
        (["up", "--no-workload", "--overload", "3x"], "leave out --no-workload"),
        (["status"], "There is no warehouse"),
        (["load"], "Missing argument 'PIPELINE'"),
        (["flood"], "No such command"),
    ],
)
def test_wrong_use_ends_with_status_2_and_a_message(arguments: list[str], said: str) -> None:
    status, _, error = invoke(*arguments)
    assert status == 2
    assert said in error


def test_migrate_seed_and_generate_work_on_a_configured_warehouse(
    empty_database_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, empty_database_url)
    assert invoke("migrate")[0] == 0
    assert invoke("seed", "--scale", "0.001")[0] == 0
    with psycopg2.connect(empty_database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM master.customer")
        assert cursor.fetchone() == (150,)
    status, output, _ = invoke("generate", "--orders", "50", "--rate", "1000", "--bad-share", "0.3", "--tick", "50ms")
    assert status == 0
    assert "orders: " in output
    assert "malformed_json: " in output
    assert list((installation / "landing" / "orders").iterdir())


def test_migrate_has_changes_of_master_data_noted_and_says_where_it_cannot(
    empty_database_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, empty_database_url)
    assert "No triggers note" not in invoke("migrate")[1]
    with contextlib.closing(psycopg2.connect(empty_database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO master.supplier VALUES (4711, 1, 'Supplier', 'here', 1, '1', 0, 'none')")
        cursor.execute("TRUNCATE master.supplier")
        cursor.execute("SELECT relation, kind, formers -> 0 -> 's_suppkey' FROM freshet.relation_change")
        assert cursor.fetchall() == [("master.supplier", "insert", None), ("master.supplier", "truncate", 4711)]
        cursor.execute("ALTER TABLE master.supplier DISABLE TRIGGER ALL")
        connection.commit()
    assert "No triggers note the changes of master.supplier: " in invoke("migrate")[1]


def test_status_and_verify_speak_of_the_warehouse(
    warehouse_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    assert "No pipeline has run" in invoke("status")[1]
    with contextlib.closing(psycopg2.connect(warehouse_url)) as connection:
        register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    assert "stopped" in invoke("status")[1]
    assert [status["name"] for status in json.loads(invoke("status", "--json")[1])] == ["orders"]
    status, output, _ = invoke("verify", "orders", "--json")
    assert (status, json.loads(output)["holds"]) == (0, True)


def test_a_retired_pipeline_leaves_its_fact_table_to_another(
    warehouse_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    assert "'orders' is not registered" in invoke("retire", "orders")[2]
    definition = load_definition("orders").model_dump_json(by_alias=True)
    with contextlib.closing(psycopg2.connect(warehouse_url)) as connection:
        register_pipeline(connection, "orders", timedelta(seconds=5), definition)
        assert invoke("retire", "orders")[0] == 0
        register_pipeline(connection, "returns", timedelta(seconds=5), definition)


def test_a_broken_law_is_exit_status_1_with_the_event_named(
    warehouse_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO warehouse.fact_orders VALUES (4711, 1, 'AUTO', 'O', 1, now(), '1-URGENT', 'me', 0, now())"
        )
    status, output, _ = invoke("verify", "orders")
    assert status == 1
    assert "4711" in output
    assert "does not hold" in output


def test_the_installed_command_brings_its_own_server_and_shows_errors_without_traceback(installation: Path) -> None:
    freshet = f"{sysconfig.get_path('scripts')}/freshet"
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([freshet, *arguments], env=environment, capture_output=True, text=True, check=False)

    seeded = run("seed", "--scale", "0.001")
    assert (seeded.returncode, seeded.stderr) == (0, "")
    assert "scale 0.001" in seeded.stdout
    assert not (installation / "postgres" / "postmaster.pid").exists()
    refused = run("seed", "--scale", "0.002")
    assert refused.returncode == 2
    assert refused.stderr.startswith("Error: This warehouse holds master data of TPC-H, scale 0.001")
    assert refused.stderr.count("\n") == 1
