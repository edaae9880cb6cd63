"""A join of tuples with those of other streams by the sorted keys of their segments, for what memory does not hold.

    keys that come, sorted      3  7  7  9
                                |  |  |
    a segment's keys, mapped   [3  4  7  8 ...]     only the pages are read on which one of them may lie

What a temporal join keeps in memory of a tuple lies in the segments too, in order of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_jobs.join_state.segment import add_within
from spark_jobs.join_state.stream_tuples import StreamTuples
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Predicate

Int64Array = NDArray[np.int64]


def sorted_join(streams: Sequence[StreamTuples], stream: int, tuples: Tuples, predicate: Predicate) -> Int64Array:
    """Results of tuples that come with those that the other streams hold.

    Args:
        streams: what each holds.
        stream: whose tuples come.
        tuples: with starts and ends, in any order; they match those of the other streams where all have a time in
            common, and their keys match.
        predicate: when keys do: equality, a band or overlap.

    Returns:
        int64, shape (streams, m): the ids that each result is made of. O(n log(1 + segment / n)) a segment, and O(1) a
        result, final or intermediate; of intervals that overlap see `Segment.overlapping`.
    """
    assert tuples.starts is not None
    assert tuples.ends is not None
    width = predicate.width if isinstance(predicate, Band) else 0
    lasts = add_within(tuples.keys, width) if tuples.highs is None else tuples.highs - 1
    # What all parts of a combination have in common: values from low to last, and a time from start to end.
    common = np.stack((tuples.keys, lasts, tuples.starts, tuples.ends))
    ids = np.empty((len(streams), len(tuples.ids)), np.int64)
    ids[stream] = tuples.ids
    for other, held in enumerate(streams):
        if other == stream:
            continue
        order = np.argsort(common[0], kind="stable")
        common, ids = common[:, order], ids[:, order]
        pairs, partners, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty((4, 0), np.int64)]
        for segment in held.segments:
            if isinstance(predicate, Equality):
                asked, rows = segment.same_keys(common[0])
                both = common[:, asked]
            else:
                asked, rows, values = segment.overlapping(common[0], common[1], width)
                both = np.concatenate((values, common[2:, asked]))
            np.maximum(both[2], segment.starts[rows], out=both[2])
            np.minimum(both[3], segment.ends[rows], out=both[3])
            valid = both[2] < both[3]
            pairs.append(asked[valid])
            partners.append(segment.ids[rows[valid]])
            found.append(both[:, valid])
        common, ids = np.hstack(found), ids[:, np.concatenate(pairs)]
        ids[other] = np.concatenate(partners)
    return ids
