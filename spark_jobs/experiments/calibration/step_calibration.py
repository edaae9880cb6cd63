"""Measures what a step of a join costs whatever it settles: a page of one tuple settles one stream tuple."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np

from spark_jobs.experiments.calibration.displaced_caches import DisplacedCaches
from spark_jobs.experiments.calibration.relation_in_memory import RelationInMemory
from spark_jobs.joins.semi_stream.base import Relation, SemiStreamJoin
from spark_jobs.relation.access_costs import Clock

_PAGES = 256
_MEMORY_BYTES = 1 << 20
_STEPS = 200
_TUPLE_BYTES = 8


def measure_access(make_join: Callable[[Relation, int], SemiStreamJoin], clock: Clock) -> float:
    """Seconds of a step; that for which a stream tuple comes and goes is in it, and does not count for much.

    Args:
        make_join: the join, of relation and memory.
        clock: tells seconds.
    """
    join = make_join(RelationInMemory(_PAGES, 1, _TUPLE_BYTES), _MEMORY_BYTES)
    caches, seconds = DisplacedCaches(), []
    for number in range(_PAGES + _STEPS):
        asked = np.array([number % _PAGES])  # of the page whose turn it is in a scan, too
        ids = np.array([number])
        caches.displace()
        started = clock()
        join.push(asked, asked, ids)
        join.advance()
        seconds.append(clock() - started)
    return median(seconds[_PAGES:])  # by then the kernels have been compiled
