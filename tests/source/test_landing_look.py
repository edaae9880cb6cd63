"""What lands while no driver looks: seen by whoever shows the status on the same host."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.ledger.source_ranges import SourceRange, note_ranges
from spark_jobs.ledger.status.lag import Lag
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.settings import Home
from spark_jobs.source.files.landed_files import LandedFiles
from spark_jobs.source.files.landing_look import ONE_LOOK, LandingLook
from tests.ledger.ledger_rows import drive, execute, only, register

SOURCE = {"format": "json", "schema": "id bigint, at timestamp", "event_id": ["id"], "event_time": "at"}


@pytest.fixture
def folder(tmp_path: Path, connection: extensions.connection) -> Path:
    """The landing folder of the pipeline orders, whose driver has stopped."""
    folder = tmp_path / "landing" / "orders"
    folder.mkdir(parents=True)
    register(connection, definition=json.dumps({"source": {**SOURCE, "path": "${FRESHET_HOME}/landing/orders"}}))
    drivers.finish(connection, "orders", drive(connection), "stopped")
    return folder


@pytest.fixture
def look(tmp_path: Path) -> LandingLook:
    return LandingLook(Home(tmp_path), ONE_LOOK)


def land(folder: Path, name: str, size: int, age: float = 0.0) -> SourceRange:
    """A file that landed that many seconds ago, as a batch would plan it."""
    path = folder / name
    path.write_bytes(b"x" * size)
    modified = time.time() - age
    os.utime(path, (modified, modified))
    return SourceRange(name, 0, size, size, path.stat().st_mtime_ns, kind="files")


def lag_of(connection: extensions.connection, look: LandingLook | None) -> Lag:
    return only(read_status(connection, look=look)).lag


def test_what_has_landed_since_the_driver_ended_is_counted(
    connection: extensions.connection, folder: Path, look: LandingLook
) -> None:
    with connection, connection.cursor() as cursor:
        note_ranges(cursor, "orders", [land(folder, "loaded", 70)], "loaded")
        half = land(folder, "half", 100, age=50.0)
        note_ranges(cursor, "orders", [SourceRange("half", 0, 60, 100, half.modified_ns, kind="files")], "loaded")
        note_ranges(cursor, "orders", [land(folder, "another by now", 5)], "loaded")
        note_ranges(cursor, "orders", [land(folder, "set aside", 5)], "loaded")
        note_ranges(cursor, "orders", [land(folder, "set aside", 8)], "set aside")
    land(folder, "another by now", 8)
    land(folder, "new", 30, age=20.0)
    land(folder, ".being-written", 30)
    lag = lag_of(connection, look)
    assert (lag.unread_files, lag.unread_bytes, lag.at_least) == (3, 78, False)
    assert lag.oldest_unread_age_ms is not None
    assert lag.oldest_unread_age_ms >= 50_000


def test_who_can_not_look_says_so(connection: extensions.connection, folder: Path, look: LandingLook) -> None:
    land(folder, "new", 30)
    assert lag_of(connection, None).at_least
    execute(connection, "UPDATE freshet.driver SET host = 'elsewhere'")
    assert lag_of(connection, look).at_least, "a folder of this name may be another one there"


def test_what_comes_from_no_folder_is_not_looked_for(
    connection: extensions.connection, folder: Path, look: LandingLook
) -> None:
    kafka = {**SOURCE, "path": None, "kafka": {"servers": "localhost:9092", "topic": "orders"}}
    execute(connection, "UPDATE freshet.pipeline SET definition = %s", json.dumps({"source": kafka}))
    assert lag_of(connection, look).at_least


def test_a_folder_that_does_not_answer_holds_nobody_up(
    connection: extensions.connection, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed, scandir = [], os.scandir

    def hanging(path: object) -> object:
        listed.append(path)
        time.sleep(1.0)
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", hanging)
    look = LandingLook(Home(tmp_path), timedelta())
    assert [lag_of(connection, look).at_least for _ in range(3)] == [True] * 3
    assert len(listed) == 1, "who waits for an answer does not ask again"


def test_a_driver_tells_what_it_has_left(tmp_path: Path) -> None:
    source = LandedFiles(tmp_path, cuttable=True)
    assert source.unread is None
    for name in ("a", "b"):
        land(tmp_path, name, 40, age=9.0)
    source.look()
    source.take(50)
    assert source.unread is not None
    assert (source.unread.files, source.unread.bytes) == (1, 40)
    source.take(50)
    assert (source.unread.files, source.unread.bytes, source.unread.landed_at) == (0, 0, None)
