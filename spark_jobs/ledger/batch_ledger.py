"""The batch ledger: one row for each batch of a pipeline, whose counts add up to what is stored.

A loading transaction writes what it stored as a part of its batch (freshet.batch_part) and commits both or
nothing. Closing a batch sums its parts up. So the ledger is exact whatever was cut off where.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import psycopg2.extras
from psycopg2 import extensions

from spark_jobs.errors import WriterFencedError
from spark_jobs.ledger.minute import add_to_minute
from spark_jobs.loading.reconciliation import drop_held_facts
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.latency import total
from spark_jobs.warehouse.writer_sessions import lock_against_loaders, read_locked


class OpenedBatch(NamedTuple):
    """A batch that was just opened.

    Attributes:
        batch_no: its number in the ledger, larger than that of every earlier batch.
        replayed: whether its tuples may have been loaded before, in part or whole: the load goes on more
            quickly if it expects that. It stays right either way.
    """

    batch_no: int
    replayed: bool


def open_batch(
    connection: extensions.connection, pipeline: str, epoch: int, spark_batch_id: int, fact: FactTable
) -> OpenedBatch:
    """Open a batch, and mark batches that were never closed as abandoned, with the counts of their parts.

    A batch that this driver has open already, for the same micro-batch, stays open: it failed, and is tried again.
    From then on no transaction can load into an older batch.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: its name.
        epoch: the driver's epoch.
        spark_batch_id: number that Spark gave the micro-batch.
        fact: the pipeline's fact table.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    with connection, connection.cursor() as cursor:
        _check_epoch(cursor, pipeline, epoch)
        query = (
            "SELECT batch_no, epoch, spark_batch_id FROM freshet.batch WHERE pipeline = %s AND state = 'started' "
            "ORDER BY batch_no FOR UPDATE"
        )
        for batch_no, *of in lock_against_loaders(cursor, pipeline, query, [pipeline]):
            if of == [epoch, spark_batch_id]:
                return OpenedBatch(batch_no, replayed=True)
            _close(cursor, pipeline, batch_no, "abandoned", {}, fact)
        cursor.execute(
            "SELECT state, spark_batch_id FROM freshet.batch WHERE pipeline = %s ORDER BY batch_no DESC LIMIT 1",
            [pipeline],
        )
        newest = cursor.fetchone()
        replayed = newest is not None and (newest[0] != "committed" or newest[1] >= spark_batch_id)
        cursor.execute(
            "INSERT INTO freshet.batch (pipeline, epoch, spark_batch_id) VALUES (%s, %s, %s) RETURNING batch_no",
            [pipeline, epoch, spark_batch_id],
        )
        row = cursor.fetchone()
    assert row is not None
    return OpenedBatch(row[0], replayed)


def close_batch(
    connection: extensions.connection, batch_no: int, statistics: Mapping[str, Any], fact: FactTable
) -> None:
    """Commit a batch: settle duplicates between facts and held tuples, and sum its parts up.

    Closing a batch that is committed already does nothing: after a lost connection it may be called again.

    Args:
        connection: the driver's; this is one transaction on it.
        batch_no: the batch.
        statistics: figures of the batch, as JSON takes them.
        fact: the pipeline's fact table.

    Raises:
        WriterFencedError: a newer driver has taken over, or has marked the batch as abandoned.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pipeline, epoch FROM freshet.batch WHERE batch_no = %s", [batch_no])
        row = cursor.fetchone()
        if row is None:
            raise WriterFencedError(f"There is no batch {batch_no} in this warehouse's ledger.")
        pipeline, epoch = row
        _check_epoch(cursor, pipeline, epoch)
        query = "SELECT state FROM freshet.batch WHERE batch_no = %s FOR UPDATE"
        ((state,),) = lock_against_loaders(cursor, pipeline, query, [batch_no])
        if state == "abandoned":
            raise WriterFencedError(
                f"Batch {batch_no} of pipeline {pipeline} was abandoned; a later one loads its tuples."
            )
        if state == "started":
            _close(cursor, pipeline, batch_no, "committed", statistics, fact)


def check_epoch(found: int, pipeline: str, epoch: int) -> None:
    """Compare the pipeline's epoch with ours.

    Raises:
        WriterFencedError: they differ.
    """
    if found != epoch:
        raise WriterFencedError(
            f"A newer driver of pipeline {pipeline} has taken over: it has epoch {found}, this one {epoch}. "
            f"Nothing more is written here; the newer one loads what is left."
        )


def _check_epoch(cursor: extensions.cursor, pipeline: str, epoch: int) -> None:
    query = "SELECT epoch FROM freshet.pipeline WHERE name = %(pipeline)s"
    cursor.execute(read_locked(query), {"pipeline": pipeline})
    row = cursor.fetchone()
    if row is None:
        raise WriterFencedError(f"Pipeline {pipeline} is not registered in this warehouse any more.")
    check_epoch(row[0], pipeline, epoch)


def _close(
    cursor: extensions.cursor,
    pipeline: str,
    batch_no: int,
    state: str,
    statistics: Mapping[str, Any],
    fact: FactTable,
) -> None:
    dropped = drop_held_facts(cursor, fact, pipeline, batch_no)
    cursor.execute(
        "DELETE FROM freshet.batch_part WHERE batch_no = %s "
        "RETURNING facts, shed, unmatched, rejected, duplicates, event_latency, arrival_latency",
        [batch_no],
    )
    parts = cursor.fetchall()
    facts, shed, unmatched, rejected, duplicates = (sum(part[k] for part in parts) for k in range(5))
    cursor.execute(
        """
        UPDATE freshet.batch SET state = %s, closed_at = clock_timestamp(), facts = %s, shed = %s, unmatched = %s,
            rejected = %s, duplicates = %s, event_latency = %s, arrival_latency = %s, statistics = %s
        WHERE batch_no = %s
        """,
        [
            state,
            facts,
            shed - dropped["shed"],
            unmatched - dropped["unmatched"],
            rejected - dropped["rejected"],
            duplicates + dropped.total(),
            total(part[5] for part in parts).tolist(),
            total(part[6] for part in parts).tolist(),
            psycopg2.extras.Json(dict(statistics), dumps=json.dumps),
            batch_no,
        ],
    )
    add_to_minute(cursor, batch_no)
