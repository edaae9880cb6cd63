"""Episodes: one at a time, and each told once when it begins and once when it ends, by one caller."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from psycopg2 import extensions

from spark_jobs.control.freshness_episodes import begin, claim_news, end, read_untold
from tests.ledger.ledger_rows import execute, register

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def news(connection: extensions.connection, told_at: datetime) -> list[tuple[str, str]]:
    return [(what, episode.reason) for what, episode in claim_news(connection, told_at)]


def test_an_episode_is_told_once_when_it_begins_and_once_when_it_ends(connection: extensions.connection) -> None:
    register(connection)
    begin(connection, "orders", NOON, "late")
    begin(connection, "orders", NOON + SECOND, "still late")
    assert news(connection, NOON) == [("missed", "late")]
    assert news(connection, NOON + SECOND) == []
    end(connection, "orders")
    end(connection, "orders")
    assert news(connection, NOON + 2 * SECOND) == [("recovered", "late")]
    assert news(connection, NOON + 3 * SECOND) == []
    begin(connection, "orders", NOON, "late again")
    assert news(connection, NOON + 4 * SECOND) == [("missed", "late again")]


def test_who_crashed_while_telling_gets_the_same_news_again(connection: extensions.connection) -> None:
    register(connection)
    begin(connection, "orders", NOON, "late")
    assert news(connection, NOON) == news(connection, NOON) == [("missed", "late")]


def test_an_episode_that_was_over_before_it_was_told_is_told_once(connection: extensions.connection) -> None:
    register(connection)
    begin(connection, "orders", NOON, "late")
    end(connection, "orders")
    assert news(connection, NOON) == [("recovered", "late")]
    assert news(connection, NOON + SECOND) == []


def test_pipelines_have_episodes_of_their_own(connection: extensions.connection) -> None:
    for name in ("orders", "order_lines"):
        register(connection, name)
        begin(connection, name, NOON, f"{name} are late")
    end(connection, "orders")
    with connection, connection.cursor() as cursor:
        untold = read_untold(cursor)
    assert [episode.news for episode in untold["orders"]] == ["recovered"]
    assert [episode.news for episode in untold["order_lines"]] == ["missed"]
    assert news(connection, NOON) == [("recovered", "orders are late"), ("missed", "order_lines are late")]
    assert execute(connection, "SELECT count(*) FROM freshet.freshness_episode WHERE recovered_at IS NULL") == (1,)
    with connection, connection.cursor() as cursor:
        assert [episode.news for episode in read_untold(cursor)["order_lines"]] == [None]
