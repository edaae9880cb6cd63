"""What `freshet up` keeps running is started again, whoever ended it; what can't be is given up, with the cause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.errors import PlatformError
from spark_jobs.launch.session_process import SessionProcess, stop_sessions
from spark_jobs.local import keeper as keeping
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.embedded_postgres.server_user import identity, programs, server_user
from spark_jobs.local.keeper import TRIES, Keeper
from tests.waiting import wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path / "postgres").use() as server:
        yield server


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.data / "postmaster.pid").read_text().split()[0])


def answers(url: str) -> bool:
    try:
        with closing(psycopg2.connect(url)):
            return True
    except psycopg2.OperationalError:
        return False


def stop_from_outside(server: EmbeddedPostgres) -> None:
    """As an operator does, past the process that uses the server."""
    user = server_user()
    command = [programs(user) / "pg_ctl", "-D", "/proc/self/cwd", "-w", "-m", "fast", "stop"]
    subprocess.run(command, cwd=server.data, check=True, capture_output=True, **identity(user))


def test_a_server_that_was_stopped_or_killed_is_started_again_where_it_was(server: EmbeddedPostgres) -> None:
    url = server.url()
    with server.kept_running():
        stop_from_outside(server)
        wait_for(lambda: answers(url), "the server, after it was stopped")
        killed = postmaster(server)
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: answers(url), "the server, after it was killed")
        assert postmaster(server) != killed
        server.check()
    stop_from_outside(server)
    assert not server.is_running()


def test_what_keeps_the_server_from_starting_is_told(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_LOOK_SECONDS", 0.01)
    with server.kept_running():
        (server.data / "postgresql.conf").write_text("shared_bufers = 1\n")
        stop_from_outside(server)
        with pytest.raises(PlatformError, match=rf"(?s)could not be started again \({TRIES} tries\).*shared_bufers"):
            wait_for(server.check, "the server to be given up")


def test_a_process_that_ends_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_LOOK_SECONDS", 0.01)
    started: list[SessionProcess] = []

    def start() -> None:
        stop_sessions(started[-1:], 0.0)
        process = SessionProcess.start(
            "brief",
            [sys.executable, "-c", "print('no database'); raise SystemExit(3)"],
            environment=os.environ,
            folder=tmp_path,
            log=tmp_path / "log",
            record=tmp_path / "record.json",
        )
        started.append(process)

    def is_running() -> bool:
        return started[-1].is_running()

    start()
    keeper = Keeper(
        "brief", is_running, start, lambda: f"It ended with {started[-1].exit_status()}.", steady_seconds=60.0
    )
    with keeper.at_work(), pytest.raises(PlatformError, match=rf"brief has .*\({TRIES} tries\)\. It ended with 3\."):
        wait_for(keeper.check, "it to be given up")
    assert len(started) == 1 + TRIES
