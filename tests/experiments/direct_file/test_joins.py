"""Every join of the catalogue over R in a direct file gives what a dictionary gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.experiments.direct_file.direct_relation import open_direct_file
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from tests.experiments.direct_file.files import payload_of, write

TUPLES = 3_000
TUPLE_BYTES = 40
MEMORY_BYTES = 120_000


@pytest.mark.parametrize("page_rows", [37, 200])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_join_finds_the_tuples_of_r_and_reports_the_keys_without_one(
    tmp_path: Path, algorithm: str, page_rows: int
) -> None:
    in_r = set(range(3, 9_000, 3))
    relation = open_direct_file(write(tmp_path / "r", sorted(in_r), TUPLE_BYTES, chunk_rows=500), page_rows)
    random = np.random.default_rng(7)
    keys = np.where(random.random(TUPLES) < 0.5, random.zipf(1.2, TUPLES) % 9_100, random.integers(9_100, size=TUPLES))
    join = create(algorithm, relation, MEMORY_BYTES)

    found: dict[int, bytes] = {}
    unmatched: list[int] = []
    pushed = 0
    while pushed < TUPLES:
        batch = np.arange(pushed, min(TUPLES, pushed + join.room))
        join.push(keys[batch], relation.pages_of(keys[batch]), batch)
        pushed += len(batch)
        steps = [join.advance()] if pushed < TUPLES else join.finish()
        for step in steps:
            assert join.memory_used() <= MEMORY_BYTES
            unmatched.extend(step.unmatched.tolist())
            if step.matches is not None:
                payloads = step.matches.page.rows["payload"][step.matches.rows]
                for i, payload in zip(step.matches.ids.tolist(), payloads, strict=True):
                    assert i not in found
                    found[i] = payload.tobytes()

    payload = payload_of(keys, TUPLE_BYTES - 8)
    assert found == {i: payload[i].tobytes() for i, key in enumerate(keys.tolist()) if key in in_r}
    assert sorted(unmatched) == [i for i, key in enumerate(keys.tolist()) if key not in in_r]
