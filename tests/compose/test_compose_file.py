"""docker-compose.yml fits the code: services, images, commands, environment, secrets."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pyspark
import pytest
from airflow.cli import cli_parser
from airflow.configuration import conf
from typer.main import get_command

from spark_jobs.cli import app
from spark_jobs.definition import load_definitions
from spark_jobs.local.airflow_process import _COMMANDS, write_configuration
from spark_jobs.settings import HOME_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE, Home
from tests.compose.conftest import FILE, secret

ONE_SHOT = {"warehouse-migrate", "airflow-init", "seed"}
AIRFLOW = {"airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"}


def test_it_has_the_services_of_the_platform(services: dict[str, Any]) -> None:
    assert set(services) == {
        "postgres", "kafka", "spark-master", "spark-worker-1", "spark-worker-2", "seed", "workload", *AIRFLOW,
        "airflow-init", "warehouse-migrate", "metrics",
    }  # fmt: skip


def test_docker_compose_accepts_it(compose_text: str) -> None:
    """Where Docker's client has the compose plugin; no engine is needed."""
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], check=False).returncode:
        pytest.skip("docker compose is not installed here")
    environment = {name: secret(name) for name in re.findall(r"\$\{(FRESHET_\w+_SECRET)", compose_text)}
    command = ["docker", "compose", "--file", str(FILE), "--profile", "*", "config", "--quiet"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stderr == ""


def test_every_service_that_stays_is_watched_and_started_again(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["restart"] == ("on-failure" if name in ONE_SHOT else "unless-stopped")
        if name not in {*ONE_SHOT, "workload"}:
            assert service["healthcheck"]["test"], name


def test_services_wait_for_what_they_need(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed in ONE_SHOT else "service_healthy"
            assert how == {"condition": expected}, f"{name} needs {needed}"
    for name in AIRFLOW:
        assert {"airflow-init", "warehouse-migrate"} <= services[name]["depends_on"].keys()


def test_images_are_pinned_to_the_versions_that_the_code_is_tested_with(services: dict[str, Any]) -> None:
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    for name, service in services.items():
        image, version = service["image"].rsplit(":", 1)
        assert re.match(r"\d", version), f"{name} has no version: {service['image']}"
        if image == "freshet":
            assert version == project["version"]
    recipe = services["spark-master"]["build"]["dockerfile_inline"]
    assert "uv sync --frozen" in recipe, "the same packages as here, out of uv.lock"
    for copied in re.findall(r"^COPY (.+) \S+$", recipe, flags=re.MULTILINE):
        for path in copied.split():
            assert (PROJECT_ROOT / path).exists()
    assert services["postgres"]["image"] == "postgres:18"


def test_no_secret_has_a_value_in_the_file(compose_text: str) -> None:
    """Each is taken from the environment, and refused where it is not set."""
    body = compose_text.split("\nname: freshet", maxsplit=1)[1]
    for reference in re.findall(r"(?<!\$)\$\{[^}]*\}", body):
        assert re.fullmatch(r"\$\{FRESHET_\w+_SECRET:\?is not set; see the head of docker-compose.yml\}", reference)
    for line in body.splitlines():
        if re.search(r"PASSWORD\b|PASSWORD:|SECRET|_KEY:", line) and ":" in line:
            assert "${FRESHET_" in line or ":'" in line or "getenv" in line or "$$" in line, line
    assert not re.search(r"://\w+:(?!\$\{)[^@/\s]+@", body), "a password in a URL"


def test_the_list_of_secrets_at_the_head_is_complete(compose_text: str) -> None:
    head = compose_text.split("\nname: freshet", maxsplit=1)[0]
    listed = re.search(r"for name in ([A-Z_ ]+); do", head)
    assert listed is not None
    told = {f"FRESHET_{name}_SECRET" for name in [*listed[1].split(), "FERNET"]}
    assert told == set(re.findall(r"\$\{(FRESHET_\w+_SECRET)", compose_text))


def test_airflow_knows_every_option(services: dict[str, Any]) -> None:
    known = conf.configuration_description
    for name in (*AIRFLOW, "airflow-init"):
        for variable in services[name]["environment"]:
            found = re.fullmatch(r"AIRFLOW__([A-Z_]+?)__(\w+)", variable)
            if found:
                section, option = found[1].lower(), found[2].lower()
                assert option in known[section]["options"], f"{section}.{option}"


def test_airflow_is_set_up_as_the_embedded_one_is(services: dict[str, Any], tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_configuration(home, port=8080, metadata_url="postgresql://airflow")
    embedded = ConfigParser()
    embedded.read(home.airflow / "airflow.cfg")
    for option in ("dags_are_paused_at_creation", "dag_ignore_file_syntax", "executor", "load_examples"):
        told = services["airflow-scheduler"]["environment"][f"AIRFLOW__CORE__{option.upper()}"]
        assert told.lower() == embedded["core"][option].lower(), option


def test_airflow_runs_the_components_that_the_embedded_platform_runs(services: dict[str, Any]) -> None:
    commands = {tuple(services[name]["command"]) for name in AIRFLOW}
    assert commands == {("airflow", arguments[0]) for arguments in _COMMANDS.values()}
    parser = cli_parser.get_parser()
    for name in AIRFLOW:
        parser.parse_args(services[name]["command"][1:])
    for name in ("airflow-dag-processor", "airflow-triggerer"):
        kind, command = services[name]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        parser.parse_args(command.replace('"$(hostname)"', "here").split()[1:])


def test_freshets_own_commands_and_variables_exist(services: dict[str, Any]) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    used = [service["command"] for service in services.values() if service.get("command", [""])[0] == "freshet"]
    assert len(used) == 4
    for _, name, *_ in used:
        assert name in commands
    assert {HOME_VARIABLE, WAREHOUSE_URL_VARIABLE} <= services["airflow-scheduler"]["environment"].keys()


def test_spark_has_the_classes(services: dict[str, Any]) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    (core,) = jars.glob("spark-core_*.jar")
    listing = subprocess.run(["python", "-m", "zipfile", "-l", core], capture_output=True, text=True, check=True).stdout
    for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
        program, java_class, *_ = services[name]["command"]
        assert (Path(pyspark.__file__).parent / "bin" / program).exists()
        assert f"{java_class.replace('.', '/')}.class" in listing


def test_the_head_names_the_streams_that_a_user_has_to_start(compose_text: str) -> None:
    head = compose_text.split("\nname: freshet", maxsplit=1)[0]
    assert set(re.findall(r"stream_load__(\w+)", head)) == load_definitions().keys()


def test_all_who_run_tasks_share_the_home_and_the_image(services: dict[str, Any]) -> None:
    for name in ("airflow-scheduler", "spark-worker-1", "spark-worker-2", "workload"):
        assert services[name]["image"] == services["spark-master"]["image"]
        assert "home:/var/lib/freshet" in services[name]["volumes"]
        assert services[name]["environment"][HOME_VARIABLE] == "/var/lib/freshet"


def test_nothing_but_the_ui_and_the_metrics_is_open_and_that_on_loopback_only(services: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"airflow-apiserver": ["127.0.0.1:8080:8080"], "metrics": ["127.0.0.1:9464:9464"]}
