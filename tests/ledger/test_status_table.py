from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from spark_jobs.ledger.files_not_loaded import FilesNotLoaded
from spark_jobs.ledger.status.backlog import Backlog, PlaceBacklog
from spark_jobs.ledger.status.lag import Lag
from spark_jobs.ledger.status.lookup_status import LookupStatus
from spark_jobs.ledger.status.operations import CacheStatus, ValidationStatus
from spark_jobs.ledger.status.pipeline_status import Freshness, PipelineStatus
from spark_jobs.ledger.status.table import StatusTable

STATUS = PipelineStatus(
    name="orders", state="running", epoch=3, error=None, heartbeat_age_ms=500.0, log_file=None, spark_ui_url=None,
    target_ms=5000.0, freshness_now_ms=6900.0, window_seconds=60.0, freshness_window=Freshness(420.0, 6900.0),
    freshness_whole=Freshness(400.0, 800.0), last_commit=datetime(2024, 5, 1, tzinfo=UTC), batches=12,
    arrived=1_234_600, loaded=1_234_567, shed=30, unmatched=2, rejected=1, duplicates=0, service_rate=20_123.4,
    hit_ratio=0.731, oldest_shed=None, oldest_unmatched=None,
    lookups=(LookupStatus("master.customer", "hybrid_join", None),),
)  # fmt: skip


def shown(*statuses: PipelineStatus) -> str:
    console = Console(width=160, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(StatusTable(statuses))
    return capture.get()


def test_a_row_tells_freshness_balance_and_speed() -> None:
    text = shown(STATUS)
    for part in ("orders", "running", "420 ms / 6.9 s", "5.0 s", "1,234,600", "1,234,567", "20,123", "73%"):
        assert part in text


def test_a_missed_target_is_red() -> None:
    assert re.search(r"\x1b\[31m *6.9 s", shown(STATUS))
    assert "\x1b[31m" not in shown(replace(STATUS, freshness_now_ms=4900.0))


def test_freshness_beyond_a_day_is_not_told_as_if_it_were_exact() -> None:
    assert "over 24 h" in shown(replace(STATUS, freshness_now_ms=86_400_000.0))


def test_lag_is_told_first_and_since_when_nobody_has_looked() -> None:
    looked_at = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    lag = Lag(12, 3_400_000, looked_at, 46_000.0, looked_at, 25_000.0)
    text = shown(replace(STATUS, lag=replace(lag, at_least=False)))
    assert text.index("lag") < text.index("freshness")
    assert "12 files" in text
    assert "nobody has looked" not in text
    dead = shown(replace(STATUS, state="down", lag=lag, freshness_now_ms=46_000.0))
    assert "at least 12 files" in dead
    assert "nobody has looked at its source since 2024-05-01 12:30:00 UTC" in dead.replace("\n", " ")
    assert "420 ms" not in dead, "facts of before say nothing of now"


def test_long_and_missing_durations_stay_readable() -> None:
    assert "10 min / 5.0 h" in shown(replace(STATUS, freshness_window=Freshness(600_000.0, 18_000_000.0)))
    idle = shown(replace(STATUS, freshness_window=Freshness(None, None), hit_ratio=None))
    assert "- / -" in idle


def test_a_blocked_pipeline_tells_by_what_and_since_when() -> None:
    since = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    text = shown(STATUS, replace(STATUS, name="lines", state="blocked", blocked_by="disk full", blocked_since=since))
    assert "lines has been blocked since 2024-05-01 12:30:00 UTC: disk full" in text
    assert "orders is blocked" not in text


def test_what_was_not_loaded_is_counted() -> None:
    told = shown(replace(STATUS, files_not_loaded=FilesNotLoaded(1, 2, "b.json: gone")))
    assert "orders: 1 file set aside, 2 ranges lost; the newest: b.json: gone" in told


def test_without_pipelines_the_table_says_so() -> None:
    assert "No pipeline has been registered" in shown()


def test_in_a_narrow_terminal_no_figure_is_cut_off() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(StatusTable([STATUS, replace(STATUS, name="order_lines")]))
    for part in ("order_lines", "420 ms / 6.9 s", "1,234,567", "hit ratio"):
        assert part in capture.get()


BUSY = replace(
    STATUS,
    state="overloaded",
    backlog=Backlog(shed=PlaceBacklog(30, STATUS.last_commit, 300_000.0)),
    caches=(
        CacheStatus(0, "master.customer", 3, "learned", 9, None, None, None, None, "triggers", 2500.0, 10_000.0, None),
    ),
    validation=ValidationStatus(
        7, "failed", "new", 9, 12, 2, ("late", "missing"), datetime(2024, 5, 1, tzinfo=UTC), *[None] * 5
    ),
)


def test_overload_backlog_staleness_and_failed_validations_show() -> None:
    text = shown(BUSY)
    for part in ("overloaded", "oldest waits", "5 min", "cache staleness", "2.5 s", "2 of 12 failed"):
        assert part in text
    assert "failed" not in shown(replace(STATUS, validation=replace(BUSY.validation, result="passed")))


def test_what_no_pipeline_has_takes_no_column() -> None:
    for heading in ("oldest waits", "cache staleness", "validation"):
        assert heading not in shown(STATUS)
        assert heading in shown(STATUS, replace(BUSY, name="order_lines"))


def test_a_busy_day_is_readable_in_a_narrow_terminal() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(StatusTable([BUSY, replace(BUSY, name="order_lines")]))
    lines = capture.get().splitlines()
    assert len([line for line in lines if "2 of 12 failed" in line]) == 1
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_of_a_stream_that_was_drained_it_is_told_that_nothing_was_unread_then() -> None:
    lag = Lag(looked_at=datetime(2024, 5, 1, 12, 30, tzinfo=UTC), look_age_ms=25_000.0)
    told = " ".join(shown(replace(STATUS, state="stopped", lag=lag)).split())
    assert "orders: nothing was unread when it stopped, as of 2024-05-01 12:30:00 UTC" in told
    assert "nobody has looked" not in told
    assert "none at its end" in told
    assert "unknown" not in told


def test_a_rejecting_stream_tells_why_below_the_table() -> None:
    told = shown(replace(STATUS, state="rejecting", overload_reason="9 of 9 tuples are rejected; most often: a: b"))
    assert "orders rejects what it reads: 9 of 9 tuples are rejected; most often: a: b" in " ".join(told.split())
