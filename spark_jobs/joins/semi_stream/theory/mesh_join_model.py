"""Cost models of MESHJOIN and R-MESHJOIN: a page settles its part of what comes in a cycle, whatever the popularity."""

from __future__ import annotations

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.setting import BackStage, Setting

# Hash table and queue, in bytes a stream tuple; the queue's pointers in bytes a chunk; the stream buffer in bytes a
# tuple, and how many it holds besides a chunk.
_TUPLE_BYTES = 24.5
_RELEASED_TUPLE_BYTES = 25
_CHUNK_BYTES = 8
_BUFFERED_TUPLE_BYTES = 16
_BUFFERED_TUPLES = 2500
_BUFFERED_PART = 1 / 32
_R_MESH_JOIN_SEGMENTS = 100


def mesh_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """MESHJOIN (000 §3): the chunk taken in for each page is w = h_S / k for R of k pages.

    A tuple stays for a whole cycle, and finds its match after half of it on average (000 §3). In the stream buffer
    it waits, if the stream is fast, for the chunk and some tuples more. It costs what it does in a hash table by key.

    Arguments and errors as of a `BackStageModel`.
    """
    return _scan(setting, setting.page_count)


def r_mesh_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """R-MESHJOIN (003 §2): as MESHJOIN, but chunks are taken in for a hundredth of R."""
    return _scan(setting, min(_R_MESH_JOIN_SEGMENTS, setting.page_count))


def early_release_mesh_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """MESHJOIN whose tuples leave as soon as they are joined: memory holds only those that still wait.

    Pages come in turn. If C stream tuples come in a cycle, a page of probability p settles pC; a tuple comes right
    after another page with the probability of that page, and waits for those between the two. So the mean stay is
    C (1 + sum p^2) / 2 in stream tuples, whatever the order of the pages, and that is what memory holds.

    Arguments and errors as of a `BackStageModel`.
    """
    waiting_tuples = (setting.memory_bytes - setting.page_bytes) / _RELEASED_TUPLE_BYTES
    _check(waiting_tuples, setting)
    popularity = stream.pages(setting.page_rows, cached_keys)
    cycle = 2 * waiting_tuples / (1 + popularity.mean(popularity.probabilities))
    matches = cycle / setting.page_count
    return BackStage(waiting_tuples, waiting_tuples, matches, _access_seconds(setting, matches))


def mesh_join_waiting_seconds(matches_per_page: float, arrival_rate: float) -> float:
    """How long a stream tuple waits until its chunk has come together, w / lambda (000 §3).

    This is the first tuple's wait; the last one's is nothing. The paper takes it for the average because tuples in
    memory wait as well, for the page that is not read meanwhile.

    Args:
        matches_per_page: w.
        arrival_rate: lambda, stream tuples per second, below the service rate.
    """
    return matches_per_page / arrival_rate


def _scan(setting: Setting, segments: float) -> BackStage:
    left = setting.memory_bytes - setting.page_bytes
    a_tuple = _TUPLE_BYTES + _BUFFERED_TUPLE_BYTES / segments
    all_chunks = segments * _CHUNK_BYTES
    small_buffer = _BUFFERED_TUPLE_BYTES * _BUFFERED_PART
    waiting_tuples = max(
        (left - min(all_chunks, left / 2)) / (a_tuple + small_buffer),
        (left - all_chunks - _BUFFERED_TUPLE_BYTES * _BUFFERED_TUPLES) / a_tuple,
    )
    _check(waiting_tuples, setting)
    matches = waiting_tuples / setting.page_count
    buffered = waiting_tuples / segments + min(_BUFFERED_TUPLES, waiting_tuples * _BUFFERED_PART)
    return BackStage(waiting_tuples, waiting_tuples / 2 + buffered, matches, _access_seconds(setting, matches))


def _access_seconds(setting: Setting, matches: float) -> float:
    setting = setting.with_multimap
    return setting.page_seconds + matches * setting.processor.per_joined_tuple


def _check(waiting_tuples: float, setting: Setting) -> None:
    if waiting_tuples < 1:
        raise MemoryBudgetError(
            f"mesh_join can't work with {setting.memory_bytes:,.0f} bytes and pages of {setting.page_bytes:,.0f}: "
            "give it more memory, or make the pages smaller"
        )
