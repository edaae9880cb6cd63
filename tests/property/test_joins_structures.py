"""The joins' data structures against plain Python ones, by random operations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.hashing import hash_bytes
from spark_jobs.joins.structures.arrival_queue import ArrivalQueue
from spark_jobs.joins.structures.frequency_sketch import FrequencySketch
from spark_jobs.joins.structures.key_table import KeyTable
from spark_jobs.joins.structures.page_probe import PageProbe
from spark_jobs.joins.structures.page_waits import PageWaits
from spark_jobs.joins.structures.stream_tuples import RING, StreamTuples

INT64 = st.integers(-(2**63), 2**63 - 1)
FEW_KEYS = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**63 - 1])


def int64(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@settings(deadline=None)
@given(st.integers(1, 30), st.lists(st.lists(INT64 | FEW_KEYS, max_size=20)), st.lists(INT64 | FEW_KEYS))
def test_key_table_numbers_keys_like_a_dictionary(capacity: int, batches: list[list[int]], probes: list[int]) -> None:
    table, slots = KeyTable(capacity), {}
    for batch in batches:
        expected = []
        for key in batch:
            if key not in slots:
                if len(slots) == capacity:
                    break
                slots[key] = len(slots)
            expected.append(slots[key])
        assert table.insert(int64(batch)).tolist() == expected
        table.check()
    assert table.probe(int64(probes)).tolist() == [slots.get(key, -1) for key in probes]


APPEND = st.tuples(st.just("append"), st.lists(st.tuples(FEW_KEYS, st.integers(0, 5)), max_size=12))
TAKE_PAGE = st.tuples(st.just("take page"), st.integers(0, 5))
TAKE_OLDEST = st.tuples(st.just("take oldest"), st.integers(0, 6))
FIND = st.tuples(st.just("find"), st.floats(0, 1))


@settings(deadline=None)
@given(st.integers(1, 20), st.lists(APPEND | TAKE_PAGE | TAKE_OLDEST | FIND, max_size=30))
def test_stream_tuples_behave_like_a_list(capacity: int, operations: list) -> None:
    tuples = StreamTuples(capacity, ranked=True)
    model: list[tuple[int, int, int]] = []
    next_id = 0
    for operation, argument in operations:
        if operation == "append":
            arriving = argument[: capacity - len(model)]
            ids = range(next_id, next_id + len(arriving))
            next_id += len(arriving)
            keys, pages = int64([key for key, _ in arriving]), int64([page for _, page in arriving])
            tuples.append(keys, pages, int64(list(ids)))
            model += [(key, page, id_) for (key, page), id_ in zip(arriving, ids, strict=True)]
        elif operation == "take page":
            keys, ids = tuples.take_page(argument)
            taken = sorted(zip(keys.tolist(), ids.tolist(), strict=True))
            assert taken == sorted((key, id_) for key, page, id_ in model if page == argument)
            model = [entry for entry in model if entry[1] != argument]
        elif operation == "find":
            if model:
                newer = round(argument * (len(model) - 1))
                assert tuples.tuples["id"][tuples.at(newer)] == model[-1 - newer][2]
        else:
            pages, ids = tuples.take_oldest(argument)
            assert list(zip(pages.tolist(), ids.tolist(), strict=True)) == [entry[1:] for entry in model[:argument]]
            model = model[argument:]
        tuples.check()
        assert len(tuples) == len(model)
        queued, place = [], tuples.oldest
        while place != RING:
            queued.append(int(tuples.tuples["id"][place]))
            place = tuples.newer_than(place)
        assert queued == [id_ for _, _, id_ in model]


WAITED_FOR = st.integers(0, 3)
COME = st.tuples(st.just("come"), st.lists(WAITED_FOR, max_size=8))
READ = st.tuples(st.just("read"), WAITED_FOR)
SHED = st.tuples(st.just("shed"), st.integers(0, 4))


@settings(deadline=None)
@given(st.lists(COME | READ | SHED, max_size=30))
def test_page_waits_know_how_many_wait_and_since_when(operations: list) -> None:
    waits, queue, since, now = PageWaits(4), [], {}, 0
    for operation, argument in operations:
        if operation == "come":
            waits.arrived(int64(argument))
            for page in argument:
                if page not in queue:
                    since[page] = now
                queue.append(page)
                now += 1
        elif operation == "read":
            waits.settled(argument, queue.count(argument))
            queue = [page for page in queue if page != argument]
        else:
            shed, queue = queue[:argument], queue[argument:]
            waits.given_up(int64(shed))
            since = {page: came for page, came in since.items() if page not in shed}
        longest = waits.longest(int64([0, 1, 2, 3]))
        assert (longest in queue) == bool(queue)
        exact = {page: queue.count(page) * (now - since[page] + 1) for page in set(queue) & since.keys()}
        if exact and exact.keys() == set(queue):
            assert exact[longest] == max(exact.values())


@settings(deadline=None)
@given(st.sampled_from([0, 16, 1000]), st.lists(FEW_KEYS | INT64), st.lists(FEW_KEYS | INT64, unique=True))
def test_page_probe_finds_what_a_dictionary_finds(memory: int, waiting: list[int], page: list[int]) -> None:
    joined = PageProbe(memory).join(int64(waiting), np.arange(len(waiting)), int64(page))
    rows = {key: row for row, key in enumerate(page)}
    found = {id_: rows[key] for id_, key in enumerate(waiting) if key in rows}
    assert dict(zip(joined.ids.tolist(), joined.rows.tolist(), strict=True)) == found
    assert sorted(joined.unmatched.tolist()) == [id_ for id_, key in enumerate(waiting) if key not in rows]


@settings(deadline=None)
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_arrival_queue_behaves_like_a_list(capacity: int, operations: list[tuple[int, int]]) -> None:
    queue, model, next_id = ArrivalQueue(capacity), [], 0
    for arriving, leaving in operations:
        count = min(arriving, capacity - len(model))
        ids = list(range(next_id, next_id + count))
        next_id += count
        queue.append(int64(ids) * 3, int64(ids))
        model += ids
        keys, oldest = queue.oldest(leaving)
        assert oldest.tolist() == model[:leaving]
        assert keys.tolist() == [3 * id_ for id_ in model[:leaving]]
        queue.drop_oldest(len(oldest))
        model = model[leaving:]
        queue.check()


@settings(deadline=None)
@given(st.integers(1, 50), st.lists(st.tuples(INT64 | FEW_KEYS, st.integers(0, 300)), max_size=60))
def test_sketch_never_estimates_too_low(keys: int, counts: list[tuple[int, int]]) -> None:
    sketch, truth = FrequencySketch(keys), {}
    for key, count in counts:
        sketch.add(int64([key]), int64([count]))
        truth[key] = truth.get(key, 0) + count
    estimates = sketch.estimates(int64(list(truth)))
    assert all(estimate >= min(true, 255) for estimate, true in zip(estimates, truth.values(), strict=True))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1))
def test_a_string_hashes_alike_wherever_it_stands(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    codes = hash_bytes(offsets, data).tolist()
    for text, code in zip(texts, codes, strict=True):
        alone = hash_bytes(np.array([0, len(text)]), np.frombuffer(text, np.uint8))
        assert alone.tolist() == [code]
    assert len(set(codes)) == len(set(texts))
