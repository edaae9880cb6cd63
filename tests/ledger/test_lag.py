"""Lag and freshness while nothing loads: what is unread, since when, and the one verdict that follows."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, read_status
from spark_jobs.ledger.unread import PartitionLag, Unread
from spark_jobs.source.kafka.partition import Partition
from tests.ledger.ledger_rows import add_batch, drive, execute, only, register

SECOND = timedelta(seconds=1)


@pytest.fixture
def epoch(connection: extensions.connection) -> int:
    """Epoch of a driver of the pipeline orders, whose target is 5 s."""
    register(connection)
    return drive(connection)


def tell(connection: extensions.connection, epoch: int, files: int = 0, size: int = 0, waited: float = 0.0) -> None:
    """The driver looks at its source, and beats."""
    landed_at = datetime.now(UTC) - waited * SECOND if files else None
    drivers.heartbeat(connection, "orders", epoch, Unread(files, size, landed_at, time.monotonic()))


def open_batch(connection: extensions.connection, epoch: int, waited: float, last: int = 100) -> int:
    """A batch that reads a file of 100 bytes, or its beginning."""
    modified_ns = time.time_ns() - int(waited * 1e9)
    return batch_ledger.open_batch(
        connection, "orders", epoch, [SourceRange("file", 0, last, 100, modified_ns, kind="files")]
    )  # fmt: skip


def status_of(connection: extensions.connection) -> PipelineStatus:
    return only(read_status(connection))


def kill(connection: extensions.connection) -> None:
    """Have the driver's process be one that has ended."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    execute(connection, "UPDATE freshet.driver SET process_id = %s", gone.pid)


def age(connection: extensions.connection, seconds: float) -> None:
    """Let the driver's last words be that old."""
    execute(
        connection,
        "UPDATE freshet.driver SET heartbeat_at = heartbeat_at - %s, looked_at = looked_at - %s, "
        "unread_since = unread_since - %s",
        *[seconds * SECOND] * 3,
    )


def test_a_driver_that_finds_nothing_is_idle_and_no_freshness_is_made_up(
    connection: extensions.connection, epoch: int
) -> None:
    tell(connection, epoch)
    status = status_of(connection)
    assert (status.state, status.freshness_now_ms) == ("idle", None)
    assert (status.lag.in_words, status.lag.is_nothing) == ("none", True)


def test_with_facts_of_now_it_runs(connection: extensions.connection, epoch: int) -> None:
    add_batch(connection, facts=10, latencies_ms=(900,) * 10)
    tell(connection, epoch)
    status = status_of(connection)
    assert status.state == "running"
    assert status.freshness_now_ms == pytest.approx(900, rel=0.11)
    assert status.lag.commit_age_ms is not None


def test_what_waits_and_what_is_under_way_is_unread_and_ages(connection: extensions.connection, epoch: int) -> None:
    open_batch(connection, epoch, waited=3.0)
    tell(connection, epoch, files=2, size=1000, waited=1.0)
    status = status_of(connection)
    assert (status.lag.unread_files, status.lag.unread_bytes) == (3, 1100)
    assert status.lag.oldest_unread_age_ms is not None
    assert 3000 <= status.lag.oldest_unread_age_ms < 5000
    assert status.freshness_now_ms == status.lag.oldest_unread_age_ms
    assert status.state == "running"
    assert status.to_dict()["lag"]["unread_files"] == 3


def test_a_file_of_which_a_batch_reads_a_part_is_one_file(connection: extensions.connection, epoch: int) -> None:
    open_batch(connection, epoch, waited=1.0, last=40)
    tell(connection, epoch, files=1, size=60, waited=1.0)
    lag = status_of(connection).lag
    assert (lag.unread_files, lag.unread_bytes) == (1, 100)


def test_of_a_topic_partitions_are_told_and_the_bytes_that_records_take(
    connection: extensions.connection, epoch: int
) -> None:
    batch_ledger.open_batch(
        connection,
        "orders",
        epoch,
        [SourceRange("t:0@Wg4J+X4tT7aHygb/hMau6g", 30, 90, 4_000, time.time_ns(), kind="kafka")],
    )
    waiting = PartitionLag("t:0", 90, 95, datetime.now(UTC).isoformat(), None)
    drivers.heartbeat(connection, "orders", epoch, Unread(0, 0, None, time.monotonic(), 0, [waiting]))
    lag = status_of(connection).lag
    assert (lag.files_in_words, lag.unread_bytes) == ("1 partition", 4_000)
    drivers.heartbeat(connection, "orders", epoch, Unread(0, 600, datetime.now(UTC), time.monotonic(), 2, [waiting]))
    lag = status_of(connection).lag
    assert (lag.files_in_words, lag.unread_bytes) == ("2 partitions", 4_600)
    of_stream = replace(waiting, partition="orders/t:0")
    drivers.heartbeat(connection, "orders", epoch, Unread(2, 600, datetime.now(UTC), time.monotonic(), 1, [of_stream]))
    assert status_of(connection).lag.files_in_words == "3 files or partitions"


def test_a_file_whose_name_is_like_a_partition_s_is_a_file(connection: extensions.connection, epoch: int) -> None:
    unit = "sales/2026-01-01T10:30@shop.json"
    batch_ledger.open_batch(
        connection, "orders", epoch, [SourceRange(unit, 30, 100, 100, time.time_ns(), kind="files")]
    )
    tell(connection, epoch, files=1, size=50)
    lag = status_of(connection).lag
    assert (lag.unread_files, lag.unread_bytes) == (2, 120)
    assert Partition.of(unit.removeprefix("sales/")) is None


def test_what_waits_for_longer_than_the_target_is_late_however_fresh_the_last_facts_were(
    connection: extensions.connection, epoch: int
) -> None:
    add_batch(connection, facts=10, latencies_ms=(900,) * 10)
    tell(connection, epoch, files=12, size=3_500_000, waited=46.0)
    execute(connection, "UPDATE freshet.driver SET started_at = started_at - interval '1 h'")
    status = status_of(connection)
    assert status.state == "late"
    assert "12 files (3.34 MB), the oldest for 46" in str(status.overload_reason)
    assert status.freshness_now_ms is not None
    assert status.freshness_now_ms >= 46_000


def test_what_has_waited_for_the_driver_is_caught_up_with(connection: extensions.connection, epoch: int) -> None:
    tell(connection, epoch, files=90, size=9000, waited=120.0)  # it has been ready for a minute
    status = status_of(connection)
    assert status.state == "catching up"
    assert "90 files" in str(status.overload_reason)
    assert status.freshness_now_ms is not None
    assert status.freshness_now_ms >= 120_000


def test_facts_of_before_say_nothing_once_the_driver_is_dead(connection: extensions.connection, epoch: int) -> None:
    """As 25 s after a kill: the window is full of fresh facts."""
    add_batch(connection, facts=10, latencies_ms=(900,) * 10)
    tell(connection, epoch)
    kill(connection)
    age(connection, 25.0)
    status = status_of(connection)
    assert (status.state, status.freshness_now_ms) == ("down", None)
    assert status.lag.at_least
    assert status.lag.in_words.startswith("unknown for 25.")
    assert status.freshness_window.p99_ms is not None, "what was measured is not forgotten"


def test_the_open_batch_of_a_dead_driver_grows_old(connection: extensions.connection, epoch: int) -> None:
    open_batch(connection, epoch, waited=30.0)
    tell(connection, epoch, files=1, size=50, waited=2.0)
    kill(connection)
    status = status_of(connection)
    assert status.state == "down"
    assert status.lag.in_words.startswith("at least 2 files (150 B), the oldest for 30.")
    assert status.freshness_now_ms is not None
    assert status.freshness_now_ms >= 30_000


def test_what_a_former_driver_has_seen_counts_until_the_next_one_looks(
    connection: extensions.connection, epoch: int
) -> None:
    tell(connection, epoch, files=3, size=300, waited=4.0)
    age(connection, 20.0)
    epoch = drive(connection)
    lag = status_of(connection).lag
    assert (lag.unread_files, lag.at_least) == (3, True)
    tell(connection, epoch)
    assert status_of(connection).lag.is_nothing


def test_a_driver_in_a_long_batch_does_not_know_what_has_landed_since(
    connection: extensions.connection, epoch: int
) -> None:
    tell(connection, epoch)
    execute(connection, "UPDATE freshet.driver SET looked_at = looked_at - interval '11 s'")
    status = status_of(connection)
    assert (status.state, status.lag.at_least) == ("running", True), "it may be behind: not idle"
