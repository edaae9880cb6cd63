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

from spark_jobs.join_state.stream_tuples import StreamTuples
from spark_jobs.joins.stream_stream.base import Tuples

Int64Array = NDArray[np.int64]


def sorted_join(streams: Sequence[StreamTuples], stream: int, tuples: Tuples) -> Int64Array:
    """Results of tuples that come with those that the other streams hold.

    Args:
        streams: what each holds.
        stream: whose tuples come.
        tuples: with starts and ends, in any order; those of the other streams with a code of theirs match, where all
            have a time in common.

    Returns:
        int64, shape (streams, m): the ids that each result is made of. O(n log segment) a segment, and O(1) a result,
        final or intermediate.
    """
    assert tuples.starts is not None
    assert tuples.ends is not None
    order = np.argsort(tuples.keys, kind="stable")
    keys, starts, ends = tuples.keys[order], tuples.starts[order], tuples.ends[order]
    ids = np.empty((len(streams), len(order)), np.int64)
    ids[stream] = tuples.ids[order]
    for other, held in enumerate(streams):
        if other == stream:
            continue
        pairs, theirs = [np.empty(0, np.int64)], [np.empty((3, 0), np.int64)]
        for segment in held.segments:
            asked, rows = segment.same_keys(keys)
            both = np.stack((segment.ids[rows], segment.starts[rows], segment.ends[rows]))
            both[1], both[2] = np.maximum(both[1], starts[asked]), np.minimum(both[2], ends[asked])
            valid = both[1] < both[2]
            pairs.append(asked[valid])
            theirs.append(both[:, valid])
        rows = np.concatenate(pairs)
        order = np.argsort(rows, kind="stable")
        rows, (partners, starts, ends) = rows[order], np.hstack(theirs)[:, order]
        keys, ids = keys[rows], ids[:, rows]
        ids[other] = partners
    return ids
