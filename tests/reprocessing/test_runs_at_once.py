"""Runs that are killed, run beside each other, or beside the stream: every event stays in exactly one place."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg2
import pytest

from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE
from tests.loading.stream import wait_for_waiters
from tests.reprocessing.conftest import STRANGER, Backlog
from tests.spark.shop import land, sale
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

TUPLES = 2000


@contextmanager
def locked(backlog: Backlog, number: int) -> Iterator[None]:
    """The held row of one sale is locked: the task that settles it waits."""
    with closing(psycopg2.connect(backlog.url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM freshet.held_tuple WHERE event_id = %s FOR UPDATE", [f"[{number}]"])
        yield


@contextmanager
def job(backlog: Backlog, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The main in a process of its own, as spark-submit runs it; killed with its workers at the end of the block."""
    with (folder / "job.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.reprocess_shed", str(backlog.path), "--no-yield", *arguments],
            env=os.environ | {HOME_VARIABLE: str(folder / "home"), WAREHOUSE_URL_VARIABLE: backlog.url},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            psutil.wait_procs(family, timeout=60)


def facts_of_runs(backlog: Backlog) -> int:
    return int(backlog.ask("SELECT coalesce(sum(facts), 0) FROM freshet.reprocessing_run")[0][0])


def test_a_run_killed_half_way_is_finished_by_the_next(backlog: Backlog, tmp_path: Path) -> None:
    backlog.shed(range(TUPLES))
    with locked(backlog, TUPLES // 2), job(backlog, tmp_path):
        done = wait_for(lambda: facts_of_runs(backlog), "one of two tasks to settle its tuples", 120)
    assert 0 < done < TUPLES
    assert backlog.places() == {"fact": done, "shed": TUPLES - done}
    backlog.check_law()
    backlog.ask("UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '11 s'")
    backlog.reprocess()
    assert backlog.runs("state", "facts") == [("abandoned", done), ("finished", TUPLES - done)]
    assert backlog.places() == {"fact": TUPLES}
    backlog.check_law()


def test_the_main_ends_with_0_and_says_how_far_it_is(backlog: Backlog, tmp_path: Path) -> None:
    backlog.shed(range(TUPLES))
    with job(backlog, tmp_path, "--place", "shed", "--limit", "1500", "--airflow-run", "manual__1") as process:
        assert process.wait(240) == 0
    log = (tmp_path / "job.log").read_text()
    assert "1500 of 1500 tuples taken, 1500 became facts" in log
    assert backlog.url not in log
    assert backlog.runs("state", "airflow_run", "places") == [("finished", "manual__1", ["shed"])]
    backlog.check_law()


def test_a_run_that_is_asked_to_end_is_closed(backlog: Backlog, tmp_path: Path) -> None:
    backlog.shed(range(TUPLES))
    with locked(backlog, TUPLES // 2), job(backlog, tmp_path) as process:
        wait_for(lambda: facts_of_runs(backlog), "one of two tasks to settle its tuples", 120)
        process.terminate()
        wait_for(lambda: backlog.runs("state") == [("abandoned",)], "the run to be closed")
    backlog.check_law()


def test_two_runs_at_once_share_the_work(backlog: Backlog) -> None:
    backlog.shed(range(TUPLES))
    with locked(backlog, TUPLES // 2):
        threads = [threading.Thread(target=backlog.reprocess) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for_waiters(backlog.url, 2)
    for thread in threads:
        thread.join()
    runs = backlog.runs("state", "facts", "due", "taken")
    assert [state for state, *_ in runs] == ["finished", "finished"]
    assert sum(facts for _, facts, *_ in runs) == TUPLES
    assert all(due == taken for *_, due, taken in runs)
    backlog.check_law()


def test_duplicates_that_the_stream_loads_meanwhile_change_nothing(backlog: Backlog) -> None:
    backlog.shed(range(TUPLES))
    with locked(backlog, TUPLES // 2):
        run = threading.Thread(target=backlog.reprocess)
        run.start()
        wait_for_waiters(backlog.url, 1)
        # Some of their originals are facts by now, the others are held.
        land(backlog.folder, "again", (sale(n, customer=STRANGER + n) for n in range(TUPLES + 500)))
        backlog.load()
    run.join()
    assert backlog.places() == {"fact": TUPLES, "unmatched": 500}
    backlog.check_law()
