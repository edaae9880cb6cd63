"""Whether a run has stored the right facts: by sums that one wrong, missing or swapped value changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.errors import FreshetError
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import VERSION_BIT, joined_with_relation

# Each value counts with a weight that depends on its event, so that no two can be swapped unseen.
_WEIGHTS = 997
_MOMENTS = 1_000_003  # sums of times since 1970 would not fit into 64 bits
_SUMS = """
    SELECT count(*)::bigint, sum(weight * (relation_sk & {lower_bits})), sum(weight * quantity),
        sum(weight * (amount * 100)::bigint),
        sum(weight * ((extract(epoch FROM happened_at) * 1000000)::bigint % {moments})){wide}
    FROM (SELECT *, event_id % {weights} + 1 AS weight FROM bench.fact) AS fact
"""
_WIDE = ", sum(weight * relation_class), sum(weight * right(relation_label, -6)::bigint)"


def check_facts(warehouse_url: str, case: LoadCase, files: Sequence[Path], *, looked_up: bool = True) -> int:
    """Compare the facts with the events of these files, joined with R, or with their keys for what R has.

    Returns:
        the number of facts.

    Raises:
        FreshetError: they differ; the message has both sides' sums.
    """
    expected = [sum(sums) for sums in zip(*(_expected(case, file, looked_up) for file in files), strict=True)]
    query = _SUMS.format(
        lower_bits=(1 << VERSION_BIT) - 1, moments=_MOMENTS, weights=_WEIGHTS, wide=_WIDE if case.is_wide else ""
    )
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    assert row is not None
    stored = [int(value or 0) for value in row]
    if stored != expected:
        raise FreshetError(
            f"The facts are wrong: {stored[0]:,} are stored, {expected[0]:,} are right; weighted sums of their columns "
            f"are {stored[1:]} instead of {expected[1:]}."
        )
    return stored[0]


def _expected(case: LoadCase, file: Path, looked_up: bool) -> list[int]:
    facts = joined_with_relation(pq.read_table(file), case)
    weights = facts["id"].to_numpy() % _WEIGHTS + 1
    cents = pc.multiply(facts["amount"], pa.scalar(100, pa.decimal128(3, 0))).cast(pa.decimal128(38, 0))
    columns = [
        facts["relation_sk" if looked_up else "key"],
        facts["quantity"],
        cents.cast(pa.int64()),
        pa.array(facts["at"].cast(pa.int64()).to_numpy() % _MOMENTS),
    ]
    if case.is_wide:
        columns += [facts["relation_class"], pc.utf8_slice_codeunits(facts["relation_label"], 6).cast(pa.int64())]
    return [len(facts), *(int(np.dot(weights, column.to_numpy().astype(np.int64))) for column in columns)]
