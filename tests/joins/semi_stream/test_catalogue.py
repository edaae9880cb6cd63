"""The catalogue names every algorithm, and makes it."""

from __future__ import annotations

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
    assert ALGORITHMS[name].paper.startswith(("000 §", "003 §"))
    assert f"| {name} " in (semi_stream.__doc__ or "")
