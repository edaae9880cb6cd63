"""What a driver that can't take its pipeline over lets go of, and in what order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.driver import stream_job
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import WarehouseUnavailableError


def test_lookups_are_closed_when_nothing_uses_them_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where taking over fails while the first shuffle is warmed up beside it."""
    ends: list[str] = []
    batches: Any = SimpleNamespace(await_learning=lambda: ends.append("warm-up"))
    lookups: Any = SimpleNamespace(close=lambda: ends.append("lookups"))

    def fail(*_: object) -> int:
        raise WarehouseUnavailableError("away")

    monkeypatch.setattr(stream_job, "jobs_of", lambda *_: None)
    monkeypatch.setattr(StreamJob, "_prepare", lambda *_, **__: (batches, None, lookups))
    monkeypatch.setattr(StreamJob, "_take_over", fail)
    job = StreamJob.__new__(StreamJob)
    job.definition = SimpleNamespace(name="orders")  # type: ignore[assignment]
    with pytest.raises(WarehouseUnavailableError):
        job.run(None, once=True)  # type: ignore[arg-type]
    assert ends == ["warm-up", "lookups"]
