"""The buckets that this worker holds: their state stays in memory from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.join_state.bucket import Bucket
from spark_jobs.stages.stream_plan import JoinPlan

# Another worker may hold the bucket: that of a driver that was replaced, or one that Spark keeps idle. The task is
# tried again then, and Spark takes the idle one for it.
_PATIENCE_SECONDS = 2.0

_held: dict[Path, Bucket] = {}


@contextmanager
def taken_bucket(plan: JoinPlan, number: int) -> Iterator[Bucket]:
    """A bucket at the version that the batch starts from: as the last batch left it here, or else restored.

    When the block has ended it is held for the next batch. If it fails, what it has left serves nobody, and is closed.

    Raises:
        StateDamagedError: it can't be restored; the message says what to do.
    """
    folder = plan.folder / str(number)
    bucket = _held.pop(folder, None)
    if bucket is not None and not bucket.serves(plan.bucket, plan.version):
        bucket.close()
        bucket = None
    if bucket is None:
        bucket = Bucket(plan.bucket, folder, plan.version, patience_seconds=_PATIENCE_SECONDS)
    try:
        yield bucket
    except BaseException:
        bucket.close()
        raise
    _held[folder] = bucket
