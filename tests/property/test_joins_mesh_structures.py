"""The multimaps of the mesh joins against lists, by random operations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.joins.structures.chunked_tuples import ChunkedTuples
from spark_jobs.joins.structures.keyed_tuples import KeyedTuples

KEYS = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**63 - 1])
APPEND = st.tuples(st.just("append"), st.lists(KEYS, max_size=8))
JOIN = st.tuples(st.just("join"), st.lists(KEYS, max_size=9, unique=True))
EXPIRE = st.tuples(st.just("expire"), st.none())
GIVE_UP = st.tuples(st.just("give up"), st.integers(0, 5))
SWEEP = st.tuples(st.just("sweep"), st.sampled_from([0.3, 0.5, 1.0]))


def int64(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@settings(deadline=None)
@given(st.integers(1, 16), st.integers(1, 5), st.lists(APPEND | JOIN | EXPIRE | GIVE_UP, max_size=40))
def test_chunked_tuples_behave_like_a_list_of_lists(capacity: int, most_chunks: int, operations: list) -> None:
    tuples = ChunkedTuples(capacity, most_chunks)
    chunks: list[tuple[int, list[list[int]]]] = []  # first page, (key, id); the id is -1 once it is settled
    next_id = 0
    for number, (operation, argument) in enumerate(operations):
        entries = [entry for _, chunk in chunks for entry in chunk]
        if operation == "append":
            arriving = argument[: capacity - len(entries)]
            if not arriving:
                continue
            fresh = [[key, next_id + i] for i, key in enumerate(arriving)]
            next_id += len(fresh)
            tuples.append(int64(arriving), int64([id_ for _, id_ in fresh]), number)
            merged = chunks.pop()[1] if len(chunks) == most_chunks else []
            chunks.append((number, merged + fresh))
        elif operation == "join":
            ids, rows = tuples.join(int64(argument))
            found = {id_: argument[row] for id_, row in zip(ids.tolist(), rows.tolist(), strict=True)}
            assert found == {id_: key for key, id_ in entries if id_ >= 0 and key in argument}
            for entry in entries:
                entry[1] = -1 if entry[1] in found else entry[1]
        elif operation == "expire" and chunks:
            assert tuples.expire_oldest().tolist() == [id_ for _, id_ in chunks.pop(0)[1] if id_ >= 0]
        elif operation == "give up":
            newest_first = [entry for entry in reversed(entries) if entry[1] >= 0][:argument]
            assert tuples.give_up_newest(argument).tolist() == [id_ for _, id_ in newest_first]
            for entry in newest_first:
                entry[1] = -1
        tuples.check()
        assert tuples.oldest_first_page == (chunks[0][0] if chunks else None)
        entries = [entry for _, chunk in chunks for entry in chunk]
        assert tuples.room == capacity - len(entries)
        assert tuples.unsettled == sum(id_ >= 0 for _, id_ in entries)


@settings(deadline=None)
@given(st.integers(1, 16), st.lists(APPEND | JOIN | GIVE_UP | SWEEP, max_size=40))
def test_keyed_tuples_behave_like_a_dictionary(capacity: int, operations: list) -> None:
    tuples = KeyedTuples(capacity)
    keys: dict[int, int] = {}
    sweeps_since: dict[int, int] = {}
    next_id = 0
    for operation, argument in operations:
        gone: list[int] = []
        if operation == "append":
            arriving = argument[: capacity - len(keys)]
            fresh = dict(enumerate(arriving, next_id))
            tuples.append(int64(arriving), int64(list(fresh)))
            next_id += len(fresh)
            keys |= fresh
            sweeps_since |= dict.fromkeys(fresh, 0)
        elif operation == "join":
            ids, rows = tuples.take(int64(argument))
            gone = ids.tolist()
            assert {id_: argument[row] for id_, row in zip(gone, rows.tolist(), strict=True)} == {
                id_: key for id_, key in keys.items() if key in argument
            }
        elif operation == "give up":
            gone = tuples.take_some(argument).tolist()
            assert len(gone) == min(argument, len(keys))
        else:
            gone = tuples.sweep(argument).tolist()
            if argument == 1:
                # Between the ends of two sweeps each tuple is passed once: none stays longer than three.
                assert all(sweeps_since[id_] < 2 for id_ in keys.keys() - set(gone))
                sweeps_since = {id_: sweeps + 1 for id_, sweeps in sweeps_since.items()}
            assert all(sweeps_since[id_] >= 1 for id_ in gone)
        tuples.check()
        assert len(gone) == len(set(gone))
        for id_ in gone:
            del keys[id_]
            del sweeps_since[id_]
        assert len(tuples) == len(keys)
