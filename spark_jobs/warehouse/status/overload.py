"""Whether a stream is overloaded, or has time to spare: told by its newest batches in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from numpy.typing import ArrayLike
from psycopg2 import extensions

from spark_jobs.warehouse.drivers import newest_driver
from spark_jobs.warehouse.latency import percentile, total

# A burst is over when nothing has been shed for so long: batches come every second or two.
LOOKED_BACK = timedelta(seconds=15)


@dataclass(frozen=True)
class StreamLoad:
    """How busy a stream is.

    Attributes:
        overloaded: it sheds, or does not keep its freshness target.
        reason: by what that is told; None where it has time to spare.
    """

    overloaded: bool
    reason: str | None = None


def stream_load(connection: extensions.connection, pipeline: str, looked_back: timedelta = LOOKED_BACK) -> StreamLoad:
    """Judge by the batches that were closed lately; a stream without any, or that does not run, has time to spare.

    Args:
        connection: to the warehouse, in no transaction.
        pipeline: its name; one that is not registered has time to spare, too.
        looked_back: how long a batch counts as new.
    """
    driver = newest_driver(connection, pipeline)
    if driver is None or not driver.is_alive():
        return StreamLoad(False)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT shed, event_latency, freshness_target FROM freshet.batch JOIN freshet.pipeline ON name = pipeline
            WHERE pipeline = %s AND state = 'committed' AND closed_at > clock_timestamp() - %s
            ORDER BY batch_no DESC
            """,
            [pipeline, looked_back],
        )
        batches = cursor.fetchall()
    if not batches:
        return StreamLoad(False)
    return judge([(shed, latency) for shed, latency, _ in batches], batches[0][2], looked_back)


def judge(
    batches: Sequence[tuple[int, ArrayLike | None]], target: timedelta, looked_back: timedelta = LOOKED_BACK
) -> StreamLoad:
    """Judge by batches that were read already.

    Args:
        batches: tuples shed, and histogram of event time to commit, of each batch that was committed lately.
        target: how fresh the facts are to be.
        looked_back: how long ago "lately" began.
    """
    shed = sum(shed for shed, _ in batches)
    seconds = f"the last {looked_back.total_seconds():.0f} s"
    if shed:
        return StreamLoad(True, f"{shed:,} tuples were shed within {seconds}")
    p99 = percentile(total(latency for _, latency in batches), 0.99)
    if p99 is not None and p99 > target.total_seconds():
        return StreamLoad(
            True, f"freshness p99 of {seconds} is {p99:.1f} s, and its target {target.total_seconds():g} s"
        )
    return StreamLoad(False)
