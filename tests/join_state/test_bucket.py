"""A bucket joins, tells and keeps what the definition says, whatever the cuts, the keys and the memory."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.columns import value_codes
from spark_jobs.definition.correlation import COMPLETED_AT
from spark_jobs.definition.fates import JOINED, TOO_MANY
from spark_jobs.errors import JoinStateError, PipelineDefinitionError
from spark_jobs.join_state import bucket as bucket_module
from spark_jobs.join_state.bucket import Bucket, bucket_of
from spark_jobs.join_state.correlated import total_counts
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window
from tests.join_state.correlated_streams import (
    Event,
    PlainState,
    Taken,
    batches_of,
    matched_by,
    plan_of,
    reached_after,
    table,
)

LITTLE = 40_000
EARLIEST = [-(2**63)] * 2


def play(taken: Taken, plain: PlainState, streams: int, folder: Path, key: str) -> None:
    """Some batches; every other a version, and every fourth a new process."""
    for number, batch in enumerate(batches_of(streams, random.Random(streams), 12), start=1):
        reached = [reached_after(number - 1, streams), reached_after(number, streams)]
        taken.take(batch, *reached)
        plain.take(batch, *reached)
        assert taken.outcome.sorted() == plain.outcome.sorted()
        if number % 2:
            taken.bucket.checkpoint(3 * number)
        if number % 4 == 1:
            taken.reopen(folder, 3 * number)


@pytest.mark.parametrize("window", [SlidingWindow(100), FixedWindow(90), None], ids=["sliding", "fixed", "for-ever"])
@pytest.mark.parametrize("key", ["whole", "text", "amount", "composite"])
@pytest.mark.parametrize("streams", [2, 3])
def test_a_bucket_does_what_the_definition_says(streams: int, key: str, window: Window | None, tmp_path: Path) -> None:
    plan = plan_of(streams, window, key)
    taken, plain = Taken(Bucket(plan, tmp_path, 0), plan, key), PlainState(plan)
    play(taken, plain, streams, tmp_path, key)
    assert taken.outcome.joined
    assert taken.outcome.late
    assert taken.outcome.duplicates
    assert bool(taken.outcome.expired) == (window is not None)


@pytest.mark.parametrize("place", ["memory", "files"])
@pytest.mark.parametrize(
    ("key", "predicate"), [("whole", Band(2)), ("amount", Band(250)), ("interval", Overlap())], ids=str
)
@pytest.mark.parametrize(("streams", "equal"), [(2, ()), (3, ()), (3, ("site",))])
def test_keys_match_by_a_band_or_by_overlap(
    streams: int,
    equal: tuple[str, ...],
    key: str,
    predicate: Predicate,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if place == "files":
        monkeypatch.setattr(bucket_module, "_AREA_SHARE", 0)
    plan = matched_by(plan_of(streams, SlidingWindow(60), key), predicate, equal)
    taken = Taken(Bucket(plan, tmp_path, 0), plan, key)
    # Amounts have two digits after the point.
    plain = PlainState(replace(plan, predicate=Band(2)) if key == "amount" else plan)
    play(taken, plain, streams, tmp_path, key)
    assert len(taken.outcome.joined) > 20
    assert taken.outcome.expired
    assert taken.bucket.in_memory == (place == "memory")


@pytest.mark.parametrize("window", [SlidingWindow(100), FixedWindow(100)], ids=["sliding", "fixed"])
@pytest.mark.parametrize("reopened", [False, True])
def test_events_of_a_stream_that_lags_are_known_when_they_are_sent_again(
    window: Window, reopened: bool, tmp_path: Path
) -> None:
    """One that was joined, with other contents now, and one that expired; the other stream has passed both."""
    plan = plan_of(window=window)
    taken = Taken(Bucket(plan, tmp_path, 0), plan, "whole")
    joined, alone, partner = Event(1, 7, 10), Event(2, 8, 10), Event(1, 7, 20)
    ahead = Event(2, 9, 90)  # it waits, as the stream that lags has not passed it
    taken.take([[joined, alone], [partner, ahead]], EARLIEST, [5, 500])
    assert taken.outcome.joined == [(1, 1)]
    assert taken.outcome.expired == [(0, 2)]
    if reopened:
        taken.bucket.checkpoint(1)
        taken.reopen(tmp_path, 1)
    taken.take([[replace(joined, key=9), alone], []], [5, 500], [5, 500])
    assert taken.outcome.duplicates == 2
    assert taken.outcome.joined == [(1, 1)]
    assert taken.outcome.expired == [(0, 2)]


def test_a_state_is_not_gone_on_with_by_another_match(tmp_path: Path) -> None:
    plan = matched_by(plan_of(), Band(2))
    bucket = Bucket(plan, tmp_path, 0)
    list(bucket.take([table([Event(1, 1, 0)]), None], EARLIEST, EARLIEST))
    bucket.checkpoint(1)
    bucket.close()
    with pytest.raises(PipelineDefinitionError, match=r"match was \{band: 2\}"):
        Bucket(replace(plan, predicate=Equality()), tmp_path, 1)


@pytest.mark.parametrize("key", ["text", "composite"])
def test_keys_and_event_ids_that_only_have_one_hash_are_not_one(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuple whose only partners were false ones expires like any other."""
    hash_bytes, combine = value_codes.hash_bytes, value_codes.combine
    monkeypatch.setattr(value_codes, "hash_bytes", lambda *parts: hash_bytes(*parts) % 3)
    monkeypatch.setattr(value_codes, "combine", lambda *parts: combine(*parts) % 3)
    plan = plan_of(3, key=key)
    taken, plain = Taken(Bucket(plan, tmp_path, 0), plan, key), PlainState(plan)
    play(taken, plain, 3, tmp_path, key)
    assert taken.outcome.joined
    assert taken.outcome.expired


@pytest.mark.parametrize("memory", [1 << 22, LITTLE])
def test_a_tuple_that_would_make_too_many_results_is_not_taken(memory: int, tmp_path: Path) -> None:
    plan = replace(plan_of(3, memory=memory), most_results=12)
    bucket = Bucket(plan, tmp_path, 0)
    # Of key 1 there are 4 and 4, of key 2 there are 4 and 3.
    first = [Event(number, number % 2 + 1, 0) for number in range(8)]
    batches = [[table(first), None, None], [None, table(first[:7]), None], [None, None, table(first[:3])]]
    for batch in batches:
        pieces = list(bucket.take(batch, [-(2**63)] * 3, [-(2**63)] * 3))
    [told] = [each.tuples for piece in pieces for each in piece.settled if (each.stream, each.fate) == (2, TOO_MANY)]
    assert told.select(["id", "_results"]).to_pydict() == {"id": [0, 2], "_results": [16, 16]}
    assert sum(piece.joined.num_rows for piece in pieces) == 12
    sums = total_counts([piece.counts for piece in pieces])[2]
    assert +sums == {TOO_MANY: 2, JOINED: 1}


def test_what_memory_does_not_hold_is_joined_from_disk(tmp_path: Path) -> None:
    plan = plan_of(memory=LITTLE)
    taken, plain = Taken(Bucket(plan, tmp_path, 0), plan), PlainState(plan)
    events = [Event(number, number % 200, number) for number in range(700)]
    for number, batch in enumerate(([events, []], [[], events[::7]]), start=1):
        taken.take(batch, EARLIEST, EARLIEST)
        plain.take(batch, EARLIEST, EARLIEST)
        taken.bucket.checkpoint(number)
        assert not taken.bucket.in_memory
    taken.reopen(tmp_path, 2)
    steps = (EARLIEST, EARLIEST, [400, 600], [760, 755])
    for before, step in pairwise(steps):
        assert not taken.bucket.in_memory
        taken.take([[], events[3::7]], before, step)
        plain.take([[], events[3::7]], before, step)
        assert taken.outcome.sorted() == plain.outcome.sorted()
    assert taken.bucket.in_memory
    later = [Event(1000 + number, number % 5, 760 + number) for number in range(20)]
    for state in (taken, plain):
        state.take([later, [*events[1::7], *later]], [760, 755], [765, 770])
    assert taken.outcome.sorted() == plain.outcome.sorted()
    assert taken.outcome.joined
    assert taken.outcome.expired


def test_results_that_are_many_come_in_pieces(tmp_path: Path) -> None:
    plan = plan_of()
    bucket = Bucket(plan, tmp_path, 0)
    one_key = [table([Event(number, 7, 0) for number in range(400)])] * 2
    pieces = [piece.joined.num_rows for piece in bucket.take(one_key, EARLIEST, EARLIEST)]
    assert sum(pieces) == 400 * 400
    assert max(pieces) < 40_000


def test_a_joined_tuple_has_the_columns_of_all_streams_and_its_latest_times(tmp_path: Path) -> None:
    bucket = Bucket(plan_of(), tmp_path, 0)
    arrived = [table([Event(1, 7, 30)], arrived=500), table([Event(2, 7, 20)], arrived=900)]
    (joined,) = [piece.joined for piece in bucket.take(arrived, EARLIEST, EARLIEST) if piece.joined.num_rows]
    assert joined.column_names == [
        *(
            f"{stream}.{column}"
            for stream in "ab"
            for column in ("key", "key_end", "site", "id", "part", "last", "count", "at")
        ),
        COMPLETED_AT,
        "_arrived_at",
    ]
    (row,) = joined.to_pylist()
    assert (row["a.id"], row["b.id"]) == (1, 2)
    assert row[COMPLETED_AT].microsecond == 30
    assert row["_arrived_at"].microsecond == 900


@pytest.mark.parametrize("column", ["key", "id", "at"])
def test_a_tuple_without_key_id_or_time_is_refused(column: str, tmp_path: Path) -> None:
    tuples = table([Event(1, 7, 30)])
    field = tuples.schema.get_field_index(column)
    nothing = tuples.set_column(field, column, [[None]]).cast(tuples.schema)
    with pytest.raises(JoinStateError, match=f"1 values of {column} are null"):
        list(Bucket(plan_of(), tmp_path, 0).take([nothing, None], EARLIEST, EARLIEST))


def test_a_take_has_to_be_consumed(tmp_path: Path) -> None:
    bucket = Bucket(plan_of(), tmp_path, 0)
    next(iter(bucket.take([table([Event(1, 7, 30)]), None], EARLIEST, EARLIEST)))
    for call in (lambda: bucket.checkpoint(1), lambda: bucket.take([None, None], EARLIEST, EARLIEST)):
        with pytest.raises(JoinStateError, match=r"open .* again"):
            call()


def test_equal_keys_have_one_bucket_and_buckets_are_filled_alike() -> None:
    for key in ("whole", "text", "composite"):
        tuples = table([Event(number, number % 5000, 0) for number in range(10_000)], key)
        buckets = bucket_of(tuples, plan_of(key=key).streams[0].key, 4)
        assert (buckets[:5000] == buckets[5000:]).all()
        counts = np.bincount(buckets, minlength=4)
        assert counts.min() > 2000
        assert len(counts) == 4
