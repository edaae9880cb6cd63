"""The wheel holds all that an installation runs, and nothing else; it runs outside of a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import psycopg2
import pytest

from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE

SHIPPED = "spark_jobs/shipped"
FIGURES = "spark_jobs/joins/figures/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(["uv", "build", "--wheel", "--quiet", "--out-dir", out], cwd=PROJECT_ROOT, check=True)
    [wheel] = out.glob("*.whl")
    return wheel


def files_of(folder: str) -> set[str]:
    files = (file for file in (PROJECT_ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(PROJECT_ROOT)) for file in files}


def test_it_holds_the_product_with_plugin_dags_and_schema_and_no_figures(wheel: Path) -> None:
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = files_of("spark_jobs")
    for folder in ("dags", "plugins", "warehouse_schema"):
        expected |= {f"{SHIPPED}/{name}" for name in files_of(folder)}
    assert any(name.startswith(FIGURES) for name in expected)
    assert held == {name for name in expected if not name.startswith(FIGURES)}
    assert wheel.stat().st_size < 3_000_000


def test_installed_from_it_the_command_line_works_and_migrates(
    wheel: Path, tmp_path: Path, empty_database_url: str
) -> None:
    site = tmp_path / "site"
    ZipFile(wheel).extractall(site)
    environment = {name: value for name, value in os.environ.items() if name != PIPELINES_VARIABLE} | {
        "PYTHONPATH": str(site),
        HOME_VARIABLE: str(tmp_path / "home"),
        WAREHOUSE_URL_VARIABLE: empty_database_url,
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    assert str(site) in run("-c", "import spark_jobs; print(spark_jobs.__file__)")
    start = "from spark_jobs.cli import app; app()"
    assert "migrate" in run("-c", start, "--help")
    assert "up to date" in run("-c", start, "migrate")
    with psycopg2.connect(empty_database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = 'master.customer'::regclass AND NOT tgisinternal")
        assert cursor.fetchall(), "the shipped pipelines were found"
