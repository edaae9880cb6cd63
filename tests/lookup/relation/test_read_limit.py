"""R is read no faster than its limit allows, however the reads are cut; what would wait for too long is shed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts, choose_back_stage
from spark_jobs.lookup.relation.back_stage_join import PagesWaitedFor, ShedDeadline, make_back_stage, run_back_stage
from spark_jobs.lookup.relation.read_limit import (
    LONGEST_SLEEP_SECONDS,
    SAVED_SECONDS,
    LimitedRelation,
    ReadLimit,
    read_limit_of,
)
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.lookup.relation.stored_relation import RelationPart, StoredRelation
from tests.virtual_time import VirtualTime

PAGES, PAGE_ROWS = 50, 20
RATE = 100.0


SPEC = RelationSpec("public", "squares", key=(), fetched=())


class SquaresOfNumbers(StoredRelation):
    """Keys 0 to 999, 20 on a page; the fetched column is the key's square."""

    page_bytes = 1000

    def __init__(self) -> None:
        super().__init__(SPEC, None)

    def read_pages(self, first: int, count: int = 1) -> Page:
        return self._page(np.arange(first * PAGE_ROWS, (first + count) * PAGE_ROWS))

    def lookup_keys(self, keys: KeyColumns) -> Page:
        return self._page(np.unique(keys.codes[keys.codes < PAGES * PAGE_ROWS]))

    def _page(self, keys: np.ndarray) -> Page:
        return Page(keys, RelationRows(integer_keys(keys), pa.table({"square": keys * keys})), 16 * len(keys))


def integer_keys(numbers: np.ndarray) -> KeyColumns:
    return KeyColumns((KeyKind.INTEGER,), numbers, None, np.ones(len(numbers), bool))


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def limit(time: VirtualTime) -> ReadLimit:
    return ReadLimit(RATE, time.clock, time.sleep)


def test_reads_keep_the_rate_whatever_their_size(limit: ReadLimit, time: VirtualTime) -> None:
    began, read = time.now, 0
    for tuples in np.random.default_rng(1).integers(1, 300, 200).tolist():
        limit.wait()
        limit.take(tuples)
        read += tuples
    assert (read - tuples) / (time.now - began) == pytest.approx(RATE, rel=0.01)
    assert limit.seconds_waited == pytest.approx(time.now - began)
    assert max(time.sleeps) <= LONGEST_SLEEP_SECONDS


def test_a_pause_saves_up_what_a_batch_would_have_read_and_no_more(limit: ReadLimit, time: VirtualTime) -> None:
    time.now += 3600
    for _ in range(int(SAVED_SECONDS * RATE) + 1):
        limit.wait()
        limit.take(1)
    assert limit.seconds_waited == 0
    limit.wait()
    assert limit.seconds_waited > 0


def test_a_new_process_does_not_begin_with_a_burst(limit: ReadLimit) -> None:
    limit.wait()
    limit.take(50)
    assert limit.seconds_until_ready() == pytest.approx(0.5)


def test_the_batches_of_a_process_share_one_limit() -> None:
    assert read_limit_of((0, "shop.customer"), 5.0) is read_limit_of((0, "shop.customer"), 5.0)
    assert read_limit_of((0, "shop.customer"), 5.0) is not read_limit_of((1, "shop.customer"), 5.0)


def test_a_page_costs_its_tuples_and_a_lookup_the_keys_asked_for(limit: ReadLimit, time: VirtualTime) -> None:
    relation = LimitedRelation(SquaresOfNumbers(), limit)
    relation.read_pages(3)
    assert relation.tuples_read == PAGE_ROWS
    relation.lookup_keys(integer_keys(np.array([1, 2, 5000, 6000])))  # two of them are not in R
    assert relation.tuples_read == PAGE_ROWS + 4
    relation.read_pages(10, 3)
    assert relation.tuples_read == 4 * PAGE_ROWS + 4
    assert relation.seconds_waited == pytest.approx((PAGE_ROWS + 4) / RATE, abs=0.001)


def test_without_a_limit_reads_are_only_counted() -> None:
    relation = LimitedRelation(SquaresOfNumbers(), None)
    relation.read_pages(0)
    assert (relation.tuples_read, relation.seconds_waited, relation.most_tuples) == (PAGE_ROWS, 0.0, None)


@pytest.mark.parametrize("algorithm", ["hybrid_join", "batched_index_nested_loop", "mesh_join"])
def test_a_back_stage_sheds_instead_of_waiting_beyond_its_time(
    limit: ReadLimit, time: VirtualTime, algorithm: str
) -> None:
    stream = np.random.default_rng(2).integers(0, PAGES * PAGE_ROWS, 3000)
    keys, seconds = integer_keys(stream), 1.0
    reads = LimitedRelation(SquaresOfNumbers(), limit)
    join = make_back_stage(algorithm, RelationPart(reads, keys, range(PAGES)), 60_000, reads.most_tuples)
    began = time.now
    settled = run_back_stage(
        join, keys.codes, PagesWaitedFor.of(stream // PAGE_ROWS), ShedDeadline(seconds, limit, clock=time.clock)
    )
    assert len(settled.shed) > 0
    assert sorted([*settled.matched, *settled.unmatched, *settled.shed]) == list(range(len(stream)))
    # No read is longer than the tuples that one may ask for, or than a page.
    assert time.now - began <= seconds
    assert 0.5 * RATE * seconds <= reads.tuples_read <= RATE * seconds + max(limit.tuples_at_once, PAGE_ROWS)


@pytest.mark.parametrize("algorithm", ["hybrid_join", "batched_index_nested_loop"])
def test_those_kept_share_their_reads_with_most_others(limit: ReadLimit, time: VirtualTime, algorithm: str) -> None:
    random = np.random.default_rng(3)
    # Each page, and on it each key, is wanted by fewer than the one before.
    stream = random.permutation(np.repeat(np.arange(PAGES) * PAGE_ROWS, np.arange(PAGES, 0, -1) * 3))
    keys = integer_keys(stream)
    reads = LimitedRelation(SquaresOfNumbers(), limit)
    relation = RelationPart(reads, keys, range(PAGES))
    pages = PagesWaitedFor.of(stream // PAGE_ROWS)
    order = pages if algorithm == "hybrid_join" else pages.looked_up(keys.codes)
    join = make_back_stage(algorithm, relation, 60_000, most_tuples=4)
    settled = run_back_stage(join, keys.codes, order, ShedDeadline(0.3, limit, clock=time.clock))
    assert len(settled.matched) > 0
    assert len(settled.shed) > 0
    assert stream[settled.matched].max() < stream[settled.shed].min()


def test_time_spent_waiting_for_the_limit_is_no_outage(time: VirtualTime) -> None:
    limit = ReadLimit(1.0, time.clock, time.sleep)
    deadline = ShedDeadline(2.0, limit, clock=time.clock)
    limit.take(1)
    assert not deadline.has_come()
    limit.wait()
    limit.take(1)
    time.now += 0.1
    assert not deadline.has_come()
    limit.wait()
    limit.take(1)
    assert deadline.has_come()


def test_time_without_the_warehouse_extends_the_deadline(time: VirtualTime) -> None:
    deadline = ShedDeadline(2.0, None, clock=time.clock)
    time.now += 60.0
    assert not deadline.has_come()
    time.now += 0.9
    assert not deadline.has_come()
    time.now += 0.9
    assert not deadline.has_come()
    time.now += 0.9
    assert deadline.has_come()


def test_auto_counts_what_the_limit_makes_of_a_page_and_of_a_key() -> None:
    unlimited = AccessCosts(0.0002, 1 / 100_000, 0.0003, scan_seconds_per_page=0.0001)
    # 30 pages are sooner read than 600 keys looked up, until a page counts as the 200 tuples that it holds.
    assert choose_back_stage(600, 30, unlimited, page_count=1000).algorithm != "batched_index_nested_loop"
    limited = unlimited.limited(1000.0, page_tuples=200)
    choice = choose_back_stage(600, 30, limited, page_count=1000)
    assert choice.algorithm == "batched_index_nested_loop"
    assert choice.predicted_seconds == pytest.approx(
        {"hybrid_join": 6.0, "batched_index_nested_loop": 0.6, "mesh_join": 200.0}
    )
    # A limit that R does not reach changes nothing.
    assert unlimited.limited(1e9, page_tuples=200) == unlimited


def test_a_batch_of_lookups_can_be_kept_small() -> None:
    stream = np.arange(500)
    reads = LimitedRelation(SquaresOfNumbers(), None)
    relation = RelationPart(reads, integer_keys(stream), range(PAGES))
    join = create("batched_index_nested_loop", relation, 200_000, most_keys=7)
    join.push(stream, stream // PAGE_ROWS, stream)
    list(join.finish())
    assert join.statistics.lookups == -(-len(stream) // 7)
