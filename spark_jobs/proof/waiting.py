"""The events that wait in the state of several streams, by their ids: all that the proof takes from the state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from psycopg2 import extensions, sql

from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.errors import PipelineDefinitionError, StateDamagedError
from spark_jobs.join_state.bucket import BucketPlan, StoredBucket
from spark_jobs.join_state.stored_bucket import bucket_folders
from spark_jobs.proof.proof import Findings
from spark_jobs.proof.staged_events import copy_in
from spark_jobs.proof.staged_stream import StagedStream, StreamIds


def stage_waiting(
    cursor: extensions.cursor,
    pipeline: str,
    shape: JoinedStreams,
    folder: Path,
    streams: Sequence[tuple[StagedStream, StreamIds]],
    findings: Findings,
) -> None:
    """Make the temporary table `waiting_<n>` of each stream: `event_id` of each event that is in no result yet.

    The state is read as it was after the last committed batch; where it can't be, that is a difference.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
        shape: its streams and their join.
        folder: of its state.
        streams: all of them.
        findings: takes what can't be read.
    """
    for stream, _ in streams:
        cursor.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} (event_id text) ON COMMIT DROP").format(stream.table("waiting"))
        )
    cursor.execute(
        "SELECT coalesce(max(batch_no), 0) FROM freshet.batch WHERE pipeline = %s AND state = 'committed'",
        [pipeline],
    )
    [(version,)] = cursor.fetchall()
    if not version:
        return
    try:
        buckets = bucket_folders(folder)
    except StateDamagedError as error:
        findings.add("state", str(error))
        return
    plan = BucketPlan.of(shape, len(buckets))
    for bucket in buckets:
        try:
            stored = StoredBucket(plan, bucket, version)
        except (StateDamagedError, PipelineDefinitionError) as error:
            findings.add("state", str(error))
            continue
        for stream, ids in streams:
            for tuples in stored.waiting(stream.number):
                copy_in(cursor, stream.table("waiting"), pa.table({"event_id": ids.texts(tuples)}))
