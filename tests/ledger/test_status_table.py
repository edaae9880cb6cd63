from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from spark_jobs.ledger.status.backlog import Backlog, PlaceBacklog
from spark_jobs.ledger.status.operations import CacheStatus, ValidationStatus
from spark_jobs.ledger.status.pipeline_status import Freshness, LookupStatus, PipelineStatus
from spark_jobs.ledger.status.table import StatusTable

STATUS = PipelineStatus(
    name="orders", state="running", epoch=3, error=None, heartbeat_age_ms=500.0, log_file=None, spark_ui_url=None,
    target_ms=5000.0, window_seconds=60.0, freshness_window=Freshness(420.0, 6900.0),
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
    assert re.search(r"\x1b\[31m *420 ms / 6.9 s", shown(STATUS))
    assert "\x1b[31m" not in shown(replace(STATUS, freshness_window=Freshness(420.0, 4900.0)))


def test_long_and_missing_durations_stay_readable() -> None:
    assert "10 min / 5.0 h" in shown(replace(STATUS, freshness_window=Freshness(600_000.0, 18_000_000.0)))
    idle = shown(replace(STATUS, freshness_window=Freshness(None, None), hit_ratio=None))
    assert "- / -" in idle


def test_a_blocked_pipeline_tells_by_what_and_since_when() -> None:
    since = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    text = shown(STATUS, replace(STATUS, name="lines", state="blocked", blocked_by="disk full", blocked_since=since))
    assert "lines has been blocked since 2024-05-01 12:30:00 UTC: disk full" in text
    assert "orders is blocked" not in text


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
