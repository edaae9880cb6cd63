"""What the embedded Airflow is configured with, and who may read it."""

import configparser
from pathlib import Path

from spark_jobs.local.airflow_process import administrator_password, password_file, write_configuration
from spark_jobs.settings import Home

URL = "postgresql://postgres@/airflow?host=/tmp/50%/sockets"


def written(home: Home, port: int = 8080) -> configparser.ConfigParser:
    write_configuration(home, port=port, metadata_url=URL)
    parser = configparser.ConfigParser()  # interpolates, as Airflow's does
    parser.read(home.airflow / "airflow.cfg")
    return parser


def test_the_metadata_database_is_reached_through_its_socket_by_both_drivers(tmp_path: Path) -> None:
    database = written(Home(tmp_path))["database"]
    assert database["sql_alchemy_conn"] == "postgresql+psycopg2://postgres@/airflow?host=/tmp/50%/sockets"
    assert database["sql_alchemy_conn_async"] == "postgresql+asyncpg://postgres@/airflow?host=/tmp/50%/sockets"


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    api = written(Home(tmp_path), port=9090)["api"]
    assert (api["host"], api["port"], api["base_url"]) == ("127.0.0.1", "9090", "http://127.0.0.1:9090")


def test_secrets_are_made_once_and_kept(tmp_path: Path) -> None:
    first, again, other = written(Home(tmp_path / "a")), written(Home(tmp_path / "a")), written(Home(tmp_path / "b"))
    for section, key in (("core", "fernet_key"), ("api_auth", "jwt_secret"), ("api", "secret_key")):
        assert first[section][key] == again[section][key] != other[section][key]
        assert len(first[section][key]) >= 32


def test_the_password_is_told_as_new_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    password, is_new = administrator_password(home)
    assert is_new
    assert administrator_password(home) == (password, False)
    assert password in password_file(home).read_text()


def test_nobody_else_may_read_what_is_secret(tmp_path: Path) -> None:
    home = Home(tmp_path)
    written(home)
    administrator_password(home)
    files = list(home.airflow.iterdir())
    assert {file.name for file in files} == {"airflow.cfg", "secrets.json", "passwords.json"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
