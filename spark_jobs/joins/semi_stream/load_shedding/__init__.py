"""Load shedding (003 §4): what is done with a stream that is faster than the join. The catalogue of policies.

| name          | sheds                                   | looks up                                  | 003      |
|---------------|-----------------------------------------|-------------------------------------------|----------|
| considered    | the oldest of the queue                 | at 15 % of the queue, or where one says   | §4.2     |
| untuned       | the oldest of the queue                 | the oldest                                | §5.3.2   |
| upfront       | what came last, before it is processed  | the oldest                                | §4, keep |
| random_sample | a random sample, before it is processed | the oldest                                | §4       |

`upfront` and `random_sample` keep the service rate as it is without shedding; the output of the latter is
a random subset of the output that the whole stream would have had. `considered` and `untuned` raise it:
more of the stream passes the front stage, and where some pages of R are more popular than others, the
tuples given up are those that cost most. Where all pages are alike (a uniform stream, or a shuffled R behind
a front stage) a page load settles fewer tuples than before, for those that will be shed take room from
the others.

How much `considered` settles depends on the lookup position, and the best one on skew, on R's order and on
the overload: it is between 30 % of the queue and its end, and the paper's 15 % stays up to a quarter below.
`considered(LongestWait(page_count))` needs no tuning: it is within 2 % of the best fixed position or above it,
by up to 80 % (tests/property/test_joins_shedding.py).

`policies.py` has these, `load_shedding_join.py` sheds, `destination.py` is where to:

    policy = POLICIES["considered"]()
    join = HybridJoin(relation, memory_bytes, policy.position)
    shedding = LoadSheddingJoin(join, policy, destination, tuples_of, buffer_capacity)
"""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.joins.semi_stream.load_shedding.destination import Destination, MemoryDestination
from spark_jobs.joins.semi_stream.load_shedding.load_shedding_join import LoadSheddingJoin
from spark_jobs.joins.semi_stream.load_shedding.policies import (
    SheddingPolicy,
    considered,
    random_sample,
    untuned,
    upfront,
)

__all__ = [
    "POLICIES",
    "Destination",
    "LoadSheddingJoin",
    "MemoryDestination",
    "SheddingPolicy",
    "considered",
    "random_sample",
    "untuned",
    "upfront",
]

POLICIES: dict[str, Callable[..., SheddingPolicy]] = {
    policy.__name__: policy for policy in (considered, untuned, upfront, random_sample)
}
