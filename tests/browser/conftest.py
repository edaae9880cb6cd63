"""A running Airflow with the page in it, a warehouse that the tests fill, and a browser: one of each for all tests."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from spark_jobs.local.airflow_process import EmbeddedAirflow, password_file
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.warehouse_users import READING, admit_users, as_user
from spark_jobs.private_files import write_private
from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE, Home
from tests.browser.dag_rights import DagRightsAuthManager
from tests.browser.page_warehouse import PageWarehouse
from tests.migrated_database import make_migrated
from tests.waiting import wait_for

DATABASE = "shown"
# name -> role; the name is the password, too. The rights of the last two are narrower, see dag_rights.py.
USERS = {"admin": "admin", "viewer": "viewer", "orders_viewer": "viewer", "stream_viewer": "viewer"}
LAPTOP = {"width": 1366, "height": 768}
# Nothing but the page's own requests may leave the browser.
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]

PATIENCE_MS = 30_000  # a machine with other work; what is there is found at once
expect.set_options(timeout=PATIENCE_MS)

LogIn = Callable[..., Page]


@pytest.fixture(scope="package")
def home() -> Iterator[Home]:
    """The installation that Airflow runs in."""
    with tempfile.TemporaryDirectory(prefix="freshet-page-") as folder:
        yield Home(Path(folder))


@pytest.fixture(scope="session")
def shown_database(postgres: EmbeddedPostgres) -> str:
    """URL of the warehouse that the page shows."""
    url = make_migrated(postgres, DATABASE)
    admit_users(url)
    return url


@pytest.fixture(scope="package")
def airflow(home: Home, postgres: EmbeddedPostgres, shown_database: str) -> Iterator[EmbeddedAirflow]:
    """API server and DAG processor. Nothing executes runs: those that a button starts stay queued."""
    write_private(password_file(home), json.dumps({name: name for name in USERS}))
    environment = {
        HOME_VARIABLE: str(home.root),
        WAREHOUSE_URL_VARIABLE: shown_database,
        "AIRFLOW_CONN_FRESHET_READER": as_user(shown_database, READING),
        PIPELINES_VARIABLE: str(PROJECT_ROOT / "dags" / "pipelines"),
        "AIRFLOW__CORE__AUTH_MANAGER": f"{DagRightsAuthManager.__module__}.{DagRightsAuthManager.__name__}",
        "PYTHONPATH": str(PROJECT_ROOT),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
    }
    running = EmbeddedAirflow(home, postgres, _free_port(), environment, components=("dag_processor",))
    running.prepare()
    running.start()
    try:
        running.wait_until_healthy()
        with running.api() as api:
            wait_for(lambda: "stream_load__orders" in api.dag_ids(), "the DAGs to be parsed", 120)
        yield running
    finally:
        running.stop()


@pytest.fixture
def warehouse(shown_database: str) -> Iterator[PageWarehouse]:
    """The warehouse that the page shows, empty."""
    with closing(PageWarehouse(shown_database)) as warehouse:
        warehouse.clear()
        yield warehouse


@pytest.fixture(scope="package")
def client(airflow: EmbeddedAirflow) -> Iterator[httpx.Client]:
    """HTTP without a session."""
    with httpx.Client(base_url=airflow.url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="package")
def tokens(client: httpx.Client) -> dict[str, str]:
    """The session token of each user."""
    answers = {name: client.post("/auth/token", json={"username": name, "password": name}) for name in USERS}
    return {name: answer.raise_for_status().json()["access_token"] for name, answer in answers.items()}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Headless Chromium, as the operating system has it; Playwright keeps an event loop running until it is closed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium here: `apt-get install chromium` brings it, as .ci/run does")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def log_in(airflow: EmbeddedAirflow, tokens: dict[str, str], browser: Browser) -> Iterator[LogIn]:
    """Opens a window for a user; whatever the window's console complains of fails the test, at its end.

    A test that provokes complaints takes them out of the window's `complaints`.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_window(user: str = "admin", **options: object) -> Page:
        context = browser.new_context(**{"base_url": airflow.url, "viewport": LAPTOP, **options})  # type: ignore[arg-type]
        context.add_cookies([{"name": "_token", "value": tokens[user], "url": airflow.url}])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.complaints = complaints  # type: ignore[attr-defined]
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert not complaints


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
