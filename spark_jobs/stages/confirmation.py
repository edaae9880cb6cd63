"""Confirms matches of hash codes by the keys themselves: two keys may share a code."""

from __future__ import annotations

import numpy as np

from spark_jobs.relation.keys.key_columns import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.stored_relation import RelationPart
from spark_jobs.stages.back_stage import Settlement


def confirmed(settlement: Settlement, keys: KeyColumns, relation: RelationPart) -> Settlement:
    """Check matches of hash codes against the real keys; a false one is looked up by its real key alone.

    Args:
        settlement: what the join found by codes.
        keys: the real keys of the stream tuples.
        relation: where to look up.
    """
    if keys.encoded is None or settlement.relation is None:
        return settlement
    same = keys.equals(settlement.matched, settlement.relation.keys, settlement.rows)
    if same.all():
        return settlement
    matched, rows = [settlement.matched[same]], [settlement.rows[same]]
    relations, frequencies = [settlement.relation], [settlement.frequencies]
    unmatched = [settlement.unmatched]
    for stream_tuple in settlement.matched[~same]:
        one = np.array([stream_tuple])
        page = relation.lookup(keys.codes[one], one)
        candidates = np.arange(len(page.keys))
        hits = candidates[keys.equals(np.repeat(one, len(candidates)), page.rows.keys, candidates)]
        if hits.size:
            matched.append(one)
            rows.append(np.array([sum(len(part) for part in relations)]))
            relations.append(page.rows.take(hits[:1]))
            frequencies.append(np.ones(1, np.int64))
        else:
            unmatched.append(one)
    return Settlement(
        np.concatenate(matched),
        np.concatenate(rows),
        RelationRows.concatenate(relations),
        np.concatenate(frequencies),
        np.concatenate(unmatched),
        settlement.shed,
    )
