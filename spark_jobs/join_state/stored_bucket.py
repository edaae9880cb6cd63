"""A version of a bucket's state, as it lies in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from spark_jobs.errors import StateDamagedError
from spark_jobs.join_state.bucket_plan import BucketPlan
from spark_jobs.join_state.segment import read_segment
from spark_jobs.join_state.spill_files import STATE_ADVICE
from spark_jobs.join_state.state_folder import VersionRecord, expect_made_for, read_version
from spark_jobs.join_state.stream_tuples import StreamTuples
from spark_jobs.joins.stream_stream.predicates import Equality


class StoredBucket:
    """A version of a bucket's state to be read beside the process that writes: it takes no lock and removes nothing.

    Args:
        plan: of the folder.
        folder: the state's own.
        version: that was checkpointed, and not forgotten before this returns; 0 for the empty state.

    Raises:
        StateDamagedError: the version is not there, or a file of it is damaged.
        PipelineDefinitionError: the state was made for other streams.
    """

    def __init__(self, plan: BucketPlan, folder: Path, version: int) -> None:
        record = read_version(folder, version) if version else None
        if record:
            expect_made_for(folder, made_for(plan))
        # All files are mapped now: they may be deleted later.
        self._streams = streams_of(plan, folder, record)

    def waiting(self, stream: int) -> Iterator[pa.Table]:
        """The tuples of a stream that are in no result yet, as they came, in pieces."""
        return self._streams[stream].not_joined()


def bucket_folders(folder: Path) -> list[Path]:
    """The folders of the buckets of a pipeline's state, in the order of their numbers.

    Raises:
        StateDamagedError: there is none.
    """
    buckets = sorted((path for path in folder.glob("*") if path.name.isdigit()), key=lambda path: int(path.name))
    if not buckets:
        raise StateDamagedError(f"{folder} has no bucket, though batches were committed. {STATE_ADVICE}")
    return buckets


def streams_of(plan: BucketPlan, folder: Path, record: VersionRecord | None) -> list[StreamTuples]:
    """The streams' tuples of a version, or none. O(bytes of its segments), which are checked.

    Where there are punctuations, the traces of each stream's purged tuples follow, and then what was told of the keys
    of each.

    Raises:
        StateDamagedError: a segment is missing or damaged.
    """
    kept = list(plan.streams) * (3 if plan.is_punctuated else 1)
    count = len(plan.streams)
    if record is None:
        return [StreamTuples(stream.event_id, are_traces=number >= count) for number, stream in enumerate(kept)]
    streams = []
    for number, (stream, files) in enumerate(zip(kept, record.segments, strict=True)):
        segments = [read_segment(folder, *file) for file in files]
        own = number % count
        for segment in segments:
            if number == own:
                segment.leave(bound(record.reached, own), min(record.reached))
            else:
                segment.leave(record.reached[own], record.reached[own])
        streams.append(StreamTuples(stream.event_id, segments, record.next_ids[number], are_traces=number >= count))
    return streams


def made_for(plan: BucketPlan) -> dict[str, object]:
    """What of a plan can't change while there is state."""
    streams = [(stream.name, stream.key, stream.event_id, stream.event_time) for stream in plan.streams]
    # What is usual is not told: a state that was made before there was a choice tells none.
    matched = [stream.matched for stream in plan.streams]
    predicate = None if isinstance(plan.predicate, Equality) else [repr(plan.predicate), matched]
    punctuations = [repr(stream.punctuation) for stream in plan.streams] if plan.is_punctuated else None
    return {"streams": streams, "window": repr(plan.window), "predicate": predicate, "punctuations": punctuations}


def bound(reached: Sequence[int], stream: int) -> int:
    """Tuples of a stream that end here or before meet none that is still to come."""
    return min(start for other, start in enumerate(reached) if other != stream)
