"""Every join of the catalogue over R in PostgreSQL gives what SQL gives."""

from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.lookup.relation.stored_relation import RelationPart
from tests.lookup.conftest import Open, keys_for

Execute = Callable[..., None]

TUPLES = 3_000
MEMORY_BYTES = 40_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_join_finds_the_tuples_of_r_and_reports_the_keys_without_one(
    execute: Execute, open_relation: Open, algorithm: str
) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY, sk int, name text)")
    execute("INSERT INTO r SELECT 3 * g, -g, 'tuple ' || g FROM generate_series(1, 1000) AS g ORDER BY md5(g::text)")
    execute("ANALYZE r")
    relation = open_relation("public.r", {"integer": "k"}, {"sk": "sk", "name": "name"}, page_rows=40)
    stream = np.random.default_rng(7).zipf(1.2, TUPLES) % 3_100
    keys = keys_for(relation, stream.tolist())
    pages = relation.page_of(keys)
    join = create(algorithm, RelationPart.whole(relation, keys), MEMORY_BYTES)

    found: dict[int, tuple] = {}
    unmatched: list[int] = []
    pushed = 0
    while pushed < TUPLES or join.pending:
        batch = np.arange(pushed, min(TUPLES, pushed + join.room))
        join.push(keys.codes[batch], pages[batch], batch)
        pushed += len(batch)
        step = join.advance()
        assert join.memory_used() <= MEMORY_BYTES
        unmatched.extend(step.unmatched.tolist())
        if step.matches is not None:
            columns = step.matches.page.rows.columns.take(step.matches.rows).to_pydict()
            for i, sk, name in zip(step.matches.ids.tolist(), columns["sk"], columns["name"], strict=True):
                assert i not in found
                found[i] = (sk, name)

    in_r = {int(key): (-int(key) // 3, f"tuple {int(key) // 3}") for key in stream if 3 <= key <= 3000 and key % 3 == 0}
    assert found == {i: in_r[int(key)] for i, key in enumerate(stream) if int(key) in in_r}
    assert sorted(unmatched) == [i for i, key in enumerate(stream) if int(key) not in in_r]
