"""A set of changed keys says yes for all of them, and for any key once they are too many."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spark_jobs.lookup.changes.unnoticed import ChangedKeys

CODES = arrays(np.int64, st.integers(0, 30), elements=st.integers(-5, 40))


@given(added=st.lists(CODES, max_size=5), asked=CODES)
def test_it_holds_what_was_added(added: list[np.ndarray], asked: np.ndarray) -> None:
    changed = ChangedKeys(most=1000)
    for codes in added:
        changed.add(codes)
    everything = {code for codes in added for code in codes.tolist()}
    assert changed.contains(asked).tolist() == [code in everything for code in asked.tolist()]
    assert len(changed) == len(everything)


def test_beyond_its_room_any_key_may_have_changed() -> None:
    changed = ChangedKeys(most=2)
    changed.add(np.array([1, 2, 2]))
    assert not changed.overflow
    changed.add(np.array([3]))
    assert changed.overflow
    assert changed.contains(np.array([77])).all()
    changed.clear()
    assert not changed.contains(np.array([1])).any()


def test_a_copy_does_not_see_later_changes() -> None:
    changed = ChangedKeys()
    changed.add(np.array([1]))
    of_batch: ChangedKeys = pickle.loads(pickle.dumps(changed.copy()))
    changed.add(np.array([2]))
    changed.add_all()
    assert of_batch.contains(np.array([1, 2])).tolist() == [True, False]
