"""The figures that the page's application serves."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from tests.browser.page_warehouse import PageWarehouse
from tests.browser.test_login import session
from tests.waiting import wait_for

Newest = Callable[[], list[dict[str, Any]]]
# They depend on when they are read.
MOVING = {"heartbeat_age_ms", "arrival_rate", "service_rate", "backlog", "lag", "freshness_now_ms"}


@pytest.fixture
def headers(tokens: dict[str, str]) -> dict[str, str]:
    return session(tokens, "viewer")


@pytest.fixture
def newest(client: httpx.Client, headers: dict[str, str]) -> Newest:
    """The status as it is now: an answer with a result of the last second does not count, nor does a failure."""

    def look(since: datetime) -> dict[str, Any] | None:
        answer = client.get("/freshet/api/status", headers=headers)
        if answer.status_code != 200 or datetime.fromisoformat(answer.json()["read_at"]) < since:
            return None
        return answer.json()

    def read() -> list[dict[str, Any]]:
        since = datetime.now(UTC)
        return wait_for(lambda: look(since), "new figures")["pipelines"]

    return read


def test_they_are_those_of_the_status_command(
    newest: Newest, warehouse: PageWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", warehouse.url)
    warehouse.register("idle")
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=1000, shed=30, unmatched=5, rejected=2)
        told = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
        shown = newest()

    def still(statuses: list[dict]) -> list[dict]:
        return [{name: value for name, value in status.items() if name not in MOVING} for status in statuses]

    assert [status["name"] for status in shown] == ["idle", "orders"]
    assert still(shown) == still(told)
    assert shown[0].keys() == told[0].keys()


def test_the_history_has_a_value_for_each_step(
    client: httpx.Client, headers: dict[str, str], warehouse: PageWarehouse
) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=600, shed=60)
        # Older than the newest step of each span: that one's rates are those of the part that has passed.
        warehouse.make_older(timedelta(minutes=6))
    for span in ("15m", "1h", "1d"):
        asked = {"pipeline": "orders", "span": span}
        history = client.get("/freshet/api/history", params=asked, headers=headers).json()
        step = history.pop("step_seconds")
        assert history.pop("distribution")["events"] == 600
        assert len({len(values) for values in history.values()}) == 1
        assert sum(history["loaded"]) * step == pytest.approx(600, rel=0.01)
        assert sum(history["shed"]) * step == pytest.approx(60, rel=0.01)
        assert max(filter(None, history["hit_ratio"])) == pytest.approx(0.87)


def test_an_unknown_pipeline_has_no_history_and_an_unknown_span_is_refused(
    client: httpx.Client, headers: dict[str, str], warehouse: PageWarehouse
) -> None:
    unknown = client.get("/freshet/api/history", params={"pipeline": "nobody", "span": "1h"}, headers=headers)
    assert unknown.status_code == 200
    assert not any(unknown.json()["loaded"])
    refused = client.get("/freshet/api/history", params={"pipeline": "orders", "span": "1y"}, headers=headers)
    assert refused.status_code == 422


def test_a_warehouse_that_is_away_is_told_and_comes_back_by_itself(
    client: httpx.Client, headers: dict[str, str], newest: Newest, warehouse: PageWarehouse
) -> None:
    warehouse.register("orders")
    with warehouse.away():
        assert "can't be reached" in failure(client, headers)
    assert [status["name"] for status in newest()] == ["orders"]


def test_a_warehouse_without_tables_is_explained(
    client: httpx.Client, headers: dict[str, str], warehouse: PageWarehouse
) -> None:
    with warehouse.without_control_tables():
        assert "freshet migrate" in failure(client, headers)


def failure(client: httpx.Client, headers: dict[str, str]) -> str:
    """Why there is no status, as soon as the last one has become old."""

    def look() -> httpx.Response | None:
        answer = client.get("/freshet/api/status", headers=headers)
        return None if answer.status_code == 200 else answer

    answer = wait_for(look, "the failure")
    assert answer.status_code == 503
    return answer.json()["detail"]


def test_many_browsers_share_one_connection(
    client: httpx.Client, headers: dict[str, str], newest: Newest, warehouse: PageWarehouse
) -> None:
    newest()
    with ThreadPoolExecutor(20) as browsers:
        answers = list(browsers.map(lambda _: client.get("/freshet/api/status", headers=headers), range(60)))
    assert {answer.status_code for answer in answers} == {200}
    assert warehouse.readers() == 1


def test_the_dags_of_a_pipeline_are_told_with_what_the_user_may_do(
    client: httpx.Client, tokens: dict[str, str]
) -> None:
    answer = client.get("/freshet/api/dags?pipeline=orders", headers=session(tokens, "admin")).json()["dags"]
    assert answer["stream_load"] == {
        "dag_id": "stream_load__orders",
        "exists": True,
        "paused": False,
        "may_run": True,
    }
    nobody = client.get("/freshet/api/dags?pipeline=nobody", headers=session(tokens, "admin")).json()["dags"]
    assert not any(dag["exists"] for dag in nobody.values())
