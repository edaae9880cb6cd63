"""Cost models of INLJ, tuple by tuple and with batched lookups: what is looked up is paid for."""

from __future__ import annotations

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, StreamPopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import BackStage, Setting

_TUPLE_BYTES = 16
# Of a batch of lookups: its largest size, memory for each key, and stream tuples considered for each key.
_MOST_KEYS = 8192
_KEY_BYTES = 160
_TUPLES_PER_KEY = 4


def index_nested_loop(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """INLJ (000 §3): an access for every stream tuple, whatever the popularity; w is 1.

    Arguments and errors as of a `BackStageModel`.
    """
    waiting_tuples = _waiting_tuples(setting, setting.page_bytes)
    processor = setting.processor
    own_work = processor.per_access + processor.probe + processor.per_joined_tuple
    seconds = setting.disk.lookup_seconds(1) + own_work
    return BackStage(waiting_tuples, waiting_tuples, 1.0, seconds)


def batched_index_nested_loop(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """INLJ with a lookup for a batch of distinct keys: repeated keys ride along.

    A batch of n stream tuples has sum(1 - (1 - p)^n) distinct keys on average, and as many reads of the disk; fewer
    where popular keys lie side by side, as in an R sorted by popularity, and a read brings several tuples: then p is
    the popularity of what one read brings.

    Arguments and errors as of a `BackStageModel`.
    """
    lookup_bytes = max(setting.page_bytes, setting.memory_bytes / 2)
    left = setting.memory_bytes - lookup_bytes
    most_keys = max(1.0, min(_MOST_KEYS, left / (2 * _KEY_BYTES), lookup_bytes / setting.tuple_bytes))
    waiting_tuples = _waiting_tuples(setting, lookup_bytes + most_keys * _KEY_BYTES)

    keys = stream.pages(1, cached_keys)
    most_tuples = min(_TUPLES_PER_KEY * most_keys, waiting_tuples)
    tuples = increasing_root(lambda count: _distinct(keys, count) - most_keys, 1.0, most_tuples)
    looked_up = _distinct(keys, tuples)
    disk, processor = setting.disk, setting.processor
    reads = looked_up if disk.lookup_rows == 1 else _distinct(stream.pages(disk.lookup_rows, cached_keys), tuples)
    lookup_seconds = disk.lookup_overhead_seconds + (reads - 1) * disk.lookup_seconds_per_key
    own_work = processor.per_access + looked_up * processor.probe + tuples * processor.per_joined_tuple
    return BackStage(waiting_tuples, waiting_tuples, tuples, lookup_seconds + own_work)


def _distinct(popularity: PagePopularity, tuples: float) -> float:
    """How many keys, or pages, this many stream tuples ask for on average."""
    log_absent = np.log1p(-np.minimum(popularity.probabilities, 1 - 1e-12))
    return popularity.sum(-np.expm1(tuples * log_absent))


def _waiting_tuples(setting: Setting, besides: float) -> float:
    waiting_tuples = (setting.memory_bytes - besides) / _TUPLE_BYTES
    if waiting_tuples < 1:
        raise MemoryBudgetError(
            f"index nested loops can't work with {setting.memory_bytes:,.0f} bytes, as {besides:,.0f} are needed for "
            "what a lookup brings: give them more memory, or make the pages smaller"
        )
    return waiting_tuples
