"""Whole runs of the alert DAG, with a mail server and a webhook that are really there."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_string

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from freshet_airflow.alert_channels import tell_webhook
from freshet_airflow.freshness_alert import Alert
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.freshness_episodes import Episode, begin, end
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.ledger.unread import Unread
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.airflow.alert_receivers import MailServer, Webhook, serving
from tests.ledger.ledger_rows import add_batch, drive, execute, hold, register

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(180)]

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def dag(home: Home, connection: extensions.connection) -> DAG:
    """The DAG as shipped, over a warehouse in which the pipeline orders is late since noon."""
    register(connection)
    drive(connection)
    add_batch(connection, facts=100, latencies_ms=(9000,) * 100)
    begin(connection, "orders", NOON, "99 of 100 facts are up to 9.0 s old")
    dag = DagBag(PROJECT_ROOT / "dags").dags["alert_freshness"]
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
        task.retry_exponential_backoff = 0
    return dag


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with serving(Webhook()) as server:
        connection = {
            "conn_type": "http", "host": "127.0.0.1", "port": server.server_port, "schema": "http",
            "password": "a-token", "extra": {"endpoint": "hooks/s3cret"},
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_FRESHET_ALERT_WEBHOOK", json.dumps(connection))
        yield server


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with serving(MailServer()) as server:
        extra = {
            "to": "ops@example.com, night@example.com", "from_email": "freshet@example.com",
            "disable_ssl": True, "disable_tls": True,
        }  # fmt: skip
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": server.server_address[1], "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_FRESHET_ALERT_EMAIL", json.dumps(connection))
        yield server


def run(dag: DAG) -> dict[str, list[str]]:
    """Run the DAG to its end; states of the instances of each task, and of the run itself under `dag`."""
    finished = dag.test()
    states: dict[str, list[str]] = {"dag": [finished.state]}
    for task in finished.get_task_instances():
        states.setdefault(task.task_id, []).append(task.state)
    return states


def test_without_connections_the_log_alone_is_told(dag: DAG, caplog: pytest.LogCaptureFixture) -> None:
    states = run(dag)
    assert (states["dag"], states["log"], states["email"], states["webhook"]) == (
        ["success"], ["success"], ["skipped"], ["skipped"],
    )  # fmt: skip
    assert caplog.text.count("orders misses its freshness target.") == 1


def test_begin_and_end_of_an_episode_are_told_once_over_every_channel(
    dag: DAG, webhook: Webhook, mail_server: MailServer, connection: extensions.connection
) -> None:
    for _ in range(2):
        assert run(dag)["dag"] == ["success"]
    ((headers, told),) = webhook.received
    assert headers["Authorization"] == "Bearer a-token"
    assert webhook.paths == ["/hooks/s3cret"]
    assert (told["pipeline"], told["what"], told["since"]) == ("orders", "missed", "2026-05-01T12:00:00+00:00")
    assert (told["target_ms"], told["reason"]) == (5000, "99 of 100 facts are up to 9.0 s old")
    assert told["p99_ms"] == pytest.approx(9000, rel=0.11)
    assert told["link"].endswith("/dags/stream_load__orders")
    ((addressees, text),) = mail_server.mails
    assert addressees == ["ops@example.com", "night@example.com"]
    mail = message_from_string(text)
    assert mail["Subject"] == "Freshet: orders misses its freshness target"
    body = b"".join(part.get_payload(decode=True) or b"" for part in mail.walk()).decode()
    for part in ("2026-05-01 12:00:00 UTC", "up to 9.0 s old", "target: 5 s", "Look at the page Warehouse freshness"):
        assert part in body
    end(connection, "orders")
    for _ in range(2):
        assert run(dag)["dag"] == ["success"]
    assert [told["what"] for _, told in webhook.received] == ["missed", "recovered"]
    assert len(mail_server.mails) == 2
    assert execute(
        connection, "SELECT count(*) FROM freshet.freshness_episode WHERE alerted_at < recovery_told_at"
    ) == (1,)


def test_the_end_of_an_episode_of_a_stopped_stream_claims_no_recovery(
    dag: DAG, webhook: Webhook, mail_server: MailServer, connection: extensions.connection
) -> None:
    drivers.finish(connection, "orders", 1, "stopped")
    end(connection, "orders")
    assert run(dag)["dag"] == ["success"]
    ((_, told),) = webhook.received
    assert (told["what"], told["state"]) == ("ended", "stopped")
    assert "action start" in told["advice"]
    ((_, text),) = mail_server.mails
    mail = message_from_string(text)
    assert mail["Subject"] == "Freshet: orders is stopped, and loads nothing; its alert has ended"
    assert "Nothing is to be done" not in str(told) + text
    assert "keeps its freshness target" not in str(told) + text


def test_a_channel_that_fails_is_tried_again_and_loses_no_other(
    dag: DAG, webhook: Webhook, mail_server: MailServer
) -> None:
    webhook.answers = [503, 500]
    states = run(dag)
    assert Counter(states["webhook"] + states["email"] + states["dag"]) == {"success": 3}
    assert len(webhook.received) == 3
    assert len(mail_server.mails) == 1


def test_pipelines_are_told_one_by_one(dag: DAG, webhook: Webhook, connection: extensions.connection) -> None:
    register(connection, "order_lines")
    begin(connection, "order_lines", NOON, "late")
    webhook.answers = [500]
    assert run(dag)["webhook"] == ["success", "success"]
    assert sorted(told["pipeline"] for _, told in webhook.received)[0] == "order_lines"
    assert len(webhook.received) == 3


def alert(connection: extensions.connection, home: Home, reason: str = "late") -> Alert:
    register(connection)
    (status,) = read_status(connection)
    return Alert.of("missed", Episode(1, "orders", NOON, reason, None, None), status, "http://airflow/")


def test_a_webhook_that_refuses_does_not_betray_its_url(
    home: Home, connection: extensions.connection, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.answers = [403]
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match="answers 403") as refused:
        tell_webhook(alert(connection, home))
    assert "s3cret" not in str(refused.value) + caplog.text
    webhook.server_close()
    with pytest.raises(Exception, match="can't be reached") as unreachable:
        tell_webhook(alert(connection, home))
    assert "s3cret" not in str(unreachable.value)


def test_an_alert_tells_what_is_unread(home: Home, connection: extensions.connection) -> None:
    register(connection)
    unread = Unread(12, 3_500_000, datetime.now(UTC) - timedelta(seconds=46), time.monotonic())
    drivers.heartbeat(connection, "orders", drive(connection), unread)
    told = alert(connection, home)
    assert "Unread:  12 files (3.34 MB), the oldest for 4" in told.text
    assert told.to_dict()["oldest_unread"] is not None


def test_an_alert_quotes_others_on_one_line(home: Home, connection: extensions.connection) -> None:
    register(connection)
    told = alert(connection, home, "no decimal: 'x\u202e\n\nState:   running\nhttp://elsewhere.example'")
    assert told.text.count("\nState: ") == 1
    assert r"x\u202e State:   running http://elsewhere.example" in told.reason


def test_what_to_do_first_depends_on_the_state(home: Home, connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    assert "driver-orders.log" in alert(connection, home).advice
    add_batch(connection, facts=1, shed=1)
    assert "More arrives than can be loaded" in alert(connection, home).advice
    hold(connection, "1", "rejected", add_batch(connection, rejected=20), NOON)
    rejecting = alert(connection, home)
    assert rejecting.subject == "Freshet: orders rejects what it reads"
    assert "`freshet held orders` shows the reasons" in rejecting.advice
    drivers.block(connection, "orders", epoch, "no partition for May")
    assert "Fix what blocks it" in alert(connection, home).advice
    execute(connection, "UPDATE freshet.driver SET state = 'failed', error = 'x' WHERE epoch = %s", epoch)
    assert "clear its task run" in alert(connection, home).advice
    drivers.take_over(connection, "orders", log_file=None)
    assert "Its driver gets ready" in alert(connection, home).advice
