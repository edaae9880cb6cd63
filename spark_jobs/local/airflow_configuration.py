"""The embedded Airflow's configuration file, secrets and administrator's password.

All are files of mode 0600 in AIRFLOW_HOME. Nothing secret goes through the environment, which Spark drivers inherit.
"""

from __future__ import annotations

import base64
import configparser
import io
import json
import os
import secrets
from pathlib import Path

from spark_jobs.local.private_file import write_private
from spark_jobs.settings import PROJECT_ROOT, Home

ADMINISTRATOR = "admin"
METADATA_DATABASE = "airflow"


def api_url(port: int) -> str:
    """Address of the embedded Airflow's UI and REST API."""
    return f"http://127.0.0.1:{port}"


def write_configuration(home: Home, *, port: int, metadata_url: str) -> None:
    """Write airflow.cfg: what the embedded Airflow needs and what makes it start fast and stay small.

    Args:
        home: the installation.
        port: loopback port of UI and REST API.
        metadata_url: libpq URL of the metadata database, reached through a Unix socket.
    """
    secret = _secrets(home.airflow / "secrets.json")
    location = metadata_url.removeprefix("postgresql://")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(
        {
            "core": {
                "dags_folder": PROJECT_ROOT / "dags",
                "plugins_folder": PROJECT_ROOT / "plugins",
                # The other syntax, glob, warns of a deprecation in every task's log.
                "dag_ignore_file_syntax": "regexp",
                "executor": "LocalExecutor",
                # Workers only launch drivers and look; the long waiting is done by the triggerer.
                "parallelism": 4,
                "load_examples": False,
                "dags_are_paused_at_creation": False,
                "fernet_key": secret["fernet_key"],
                "simple_auth_manager_users": f"{ADMINISTRATOR}:admin",
                "simple_auth_manager_passwords_file": password_file(home),
            },
            "database": {
                "sql_alchemy_conn": f"postgresql+psycopg2://{location}",
                "sql_alchemy_conn_async": f"postgresql+asyncpg://{location}",
            },
            "api": {
                "host": "127.0.0.1",
                "port": port,
                "base_url": api_url(port),
                "workers": 1,
                "secret_key": secret["api_key"],
                "instance_name": "Freshet",
            },
            "api_auth": {"jwt_secret": secret["jwt_key"]},
            "scheduler": {"task_instance_heartbeat_timeout": 60},
            "dag_processor": {"refresh_interval": 15, "parsing_processes": 1},
            "logging": {
                "base_log_folder": home.logs / "tasks",
                "dag_processor_child_process_log_directory": home.logs / "dag-processor",
            },
        }
    )
    text = io.StringIO("# Written anew by each `freshet up`.\n")
    text.seek(0, io.SEEK_END)
    parser.write(text)
    # Airflow reads a percent sign as the start of an interpolation.
    write_private(home.airflow / "airflow.cfg", text.getvalue().replace("%", "%%"))


def administrator_password(home: Home) -> tuple[str, bool]:
    """The administrator's password, and whether it was made just now."""
    file = password_file(home)
    if file.exists():
        return json.loads(file.read_text())[ADMINISTRATOR], False
    password = secrets.token_urlsafe(12)
    write_private(file, json.dumps({ADMINISTRATOR: password}) + "\n")
    return password, True


def password_file(home: Home) -> Path:
    """The file that holds the administrator's password."""
    return home.airflow / "passwords.json"


def _secrets(file: Path) -> dict[str, str]:
    if not file.exists():
        made = {
            "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "jwt_key": secrets.token_hex(32),
            "api_key": secrets.token_hex(32),
        }
        write_private(file, json.dumps(made))
    stored: dict[str, str] = json.loads(file.read_text())
    return stored
