"""Episodes: times during which a pipeline missed its freshness target, whose begin and end are each told once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from psycopg2 import extensions

News = Literal["missed", "recovered"]


@dataclass(frozen=True)
class Episode:
    """One row of freshet.freshness_episode. Times are in UTC.

    Attributes:
        reason: how the target was missed when it began, in words.
        alerted_at: when that was told; None: not yet.
        recovered_at: when the target was kept again; None: not yet.
    """

    episode_id: int
    pipeline: str
    began_at: datetime
    reason: str
    alerted_at: datetime | None
    recovered_at: datetime | None

    @property
    def news(self) -> News | None:
        """What is still to be told about it; None: nothing before it is over."""
        if self.recovered_at is not None:
            return "recovered"
        return "missed" if self.alerted_at is None else None


_COLUMNS = "episode_id, pipeline, began_at, reason, alerted_at, recovered_at"


def begin(connection: extensions.connection, pipeline: str, began_at: datetime, reason: str) -> None:
    """Record that an episode has begun; there is one at a time."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO freshet.freshness_episode (pipeline, began_at, reason) VALUES (%s, %s, %s) "
            "ON CONFLICT (pipeline) WHERE recovered_at IS NULL DO NOTHING",
            [pipeline, began_at, reason],
        )


def end(connection: extensions.connection, pipeline: str) -> None:
    """Record that the pipeline's episode is over."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.freshness_episode SET recovered_at = clock_timestamp() "
            "WHERE pipeline = %s AND recovered_at IS NULL",
            [pipeline],
        )


def read_untold(cursor: extensions.cursor) -> dict[str, list[Episode]]:
    """The episodes of each pipeline that are not over, or of which not all has been told, oldest first."""
    cursor.execute(
        f"SELECT {_COLUMNS} FROM freshet.freshness_episode WHERE recovered_at IS NULL OR recovery_told_at IS NULL "
        "ORDER BY episode_id"
    )
    episodes: dict[str, list[Episode]] = {}
    for row in cursor.fetchall():
        episode = _episode(row)
        episodes.setdefault(episode.pipeline, []).append(episode)
    return episodes


def claim_news(connection: extensions.connection, told_at: datetime) -> list[tuple[News, Episode]]:
    """Claim all that has not been told yet: no other caller gets it.

    An episode that is over before its begin was told is told once, as recovered.

    Args:
        connection: of a role that may write the control schema; this is one transaction on it.
        told_at: identifies the caller. Asked again with the same time, it gives the same again, after a crash say.
            So it has to be a time that the caller keeps when it is restarted.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE freshet.freshness_episode SET recovery_told_at = %(told_at)s
            WHERE recovered_at IS NOT NULL AND (recovery_told_at IS NULL OR recovery_told_at = %(told_at)s)
            RETURNING {_COLUMNS}
            """,
            {"told_at": told_at},
        )
        recovered = [_episode(row) for row in cursor.fetchall()]
        cursor.execute(
            f"""
            UPDATE freshet.freshness_episode SET alerted_at = %(told_at)s
            WHERE recovered_at IS NULL AND (alerted_at IS NULL OR alerted_at = %(told_at)s)
            RETURNING {_COLUMNS}
            """,
            {"told_at": told_at},
        )
        missed = [_episode(row) for row in cursor.fetchall()]
    news: list[tuple[News, Episode]] = [("recovered", episode) for episode in recovered]
    news += [("missed", episode) for episode in missed]
    return sorted(news, key=lambda told: told[1].episode_id)


def _episode(row: tuple[object, ...]) -> Episode:
    return Episode(*(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row))  # type: ignore[arg-type]
