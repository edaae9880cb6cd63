"""Processes in sessions of their own: started, found again, and ended with all that they started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spark_jobs.errors import PlatformError
from spark_jobs.launch.session_process import ProcessIdentity, SessionProcess, stop_sessions
from tests.waiting import wait_for

# Prints the id of a child that outlives it, as Spark's Python workers may.
PARENT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"

# Its main thread ends before another one does, as those of a JVM that is killed may.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=[600]).start()
print(1, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def start(folder: Path, program: str) -> SessionProcess:
    return SessionProcess.start(
        "test",
        [sys.executable, "-c", program],
        environment=os.environ,
        folder=folder,
        log=folder / "logs" / "test.log",
        record=folder / "processes" / "test.json",
    )


def printed(folder: Path) -> int:
    log = folder / "logs" / "test.log"
    return wait_for(lambda: int(log.read_text() or 0), "the process to start")


def test_a_session_is_ended_with_the_children_it_left_behind(tmp_path: Path) -> None:
    session = start(tmp_path, PARENT)
    child = psutil.Process(printed(tmp_path))
    session.send(signal.SIGKILL)
    wait_for(lambda: not session.is_running(), "the leader's end")
    assert child in session.members()
    stop_sessions([session], grace_seconds=1.0)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert not session.record.exists()


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    session = start(tmp_path, STUBBORN)
    printed(tmp_path)
    stop_sessions([session], grace_seconds=0.1)
    assert session.exit_status() == -signal.SIGKILL


def test_a_process_has_not_ended_with_its_main_thread(tmp_path: Path) -> None:
    session = start(tmp_path, HEADLESS)
    printed(tmp_path)
    leader = psutil.Process(session.identity.process_id)
    wait_for(lambda: leader.status() == psutil.STATUS_ZOMBIE, "the end of the main thread")
    assert session.identity.is_alive()
    assert leader in session.members()
    stop_sessions([session], grace_seconds=0.1)
    assert not session.members()


def test_a_process_is_found_again_by_its_record(tmp_path: Path) -> None:
    session = start(tmp_path, PARENT)
    printed(tmp_path)
    found = SessionProcess.recorded("test", session.record)
    assert found is not None
    assert found.is_running()
    stop_sessions([found], grace_seconds=5.0)
    assert session.exit_status() == -signal.SIGTERM


def test_another_process_with_the_recorded_id_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        record = tmp_path / "test.json"
        ProcessIdentity(other.pid, ProcessIdentity.of(other.pid).started_at - 3600).write(record)
        found = SessionProcess.recorded("test", record)
        assert found is not None
        assert not found.is_running()
        stop_sessions([found], grace_seconds=0.0)
        assert other.poll() is None
        other.kill()


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"test could not be started: /no/such/program: No such file"):
        SessionProcess.start(
            "test",
            ["/no/such/program"],
            environment=os.environ,
            folder=tmp_path,
            log=tmp_path / "log",
            record=tmp_path / "record",
        )


@pytest.mark.parametrize("text", ["", "[]", '{"process_id": 1}', "{"])
def test_an_unreadable_record_names_no_process(tmp_path: Path, text: str) -> None:
    record = tmp_path / "test.json"
    record.write_text(text)
    assert SessionProcess.recorded("test", record) is None


def test_the_record_is_private(tmp_path: Path) -> None:
    session = start(tmp_path, STUBBORN)
    assert session.record.stat().st_mode & 0o777 == 0o600
    stop_sessions([session], grace_seconds=0.0)
