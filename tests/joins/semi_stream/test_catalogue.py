"""The catalogue names every algorithm, and makes it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spark_jobs.joins import semi_stream
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from tests.joins.memory_relation import MemoryRelation


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_made_by_its_name_and_described(name: str) -> None:
    join = create(name, MemoryRelation(range(10)), 100_000)
    assert isinstance(join, SemiStreamJoin)
    assert ALGORITHMS[name].name == name
    assert re.match(r"(ours, after )?00[03] §", ALGORITHMS[name].paper)
    assert f"| {name} " in (semi_stream.__doc__ or "")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_made_by_its_name_waits_for_more_of_the_stream(name: str) -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = create(name, relation, 100_000)
    key = np.array([95])
    join.push(key, relation.pages_of(key), np.array([0]))
    for _ in range(relation.page_count):
        join.advance()
    assert join.statistics.matched == 1
