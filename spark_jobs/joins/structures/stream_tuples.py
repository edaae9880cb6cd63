"""Stream tuples that wait for their page of R: a hash multimap and a queue with random deletion.

    page of R --mix--> bucket -> tuple <-> tuple <-> ...      the multimap H_S: all tuples of a page in one bucket,
                            `--> tuple <-> tuple <-> ...      which is two chains
    newest <-> tuple <-> tuple <-> ... <-> tuple <-> oldest   the queue Q: all tuples, in order of arrival

A tuple stands at a place, a number from 1 on, and is linked into one chain and into the queue. Both
are doubly linked, so it leaves from anywhere in O(1). Place 0 holds no tuple: it ends every chain, and
closes the queue to a ring. Whoever follows a chain waits for memory at every tuple; so a bucket has
two, followed in turn: with a million tuples waiting that makes a third less time in all.

A ranked queue also finds the tuple at any position. A finger stands at the tuple last asked for, and
knows how many are newer; a mark on each of those tells on which side of it a tuple leaves:

    newest <-> tuple <-> tuple <-> tuple <-> tuple <-> oldest
    newer      newer     newer     finger
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
MarkArray = NDArray[np.uint8]
# Tuples, links, chains, marks, counters. Without marks there is None in their place: kernels are then compiled
# without what concerns them, where to ask for each tuple would cost 20 ns a tuple taken out.
_State = tuple[NDArray[np.void], Int32Array, Int32Array, MarkArray | None, Int64Array]

TUPLE = np.dtype([("key", np.int64), ("page", np.int64), ("id", np.int64)])
# Columns of the links: in the chain, and in the queue.
_NEXT, _PREVIOUS, _NEWER, _OLDER = 0, 1, 2, 3
_LINKS = 4
RING = 0
_CHAINS = 2
MOST_TUPLES = 2**31 - 2

# Positions in the array of counters.
_LENGTH = 0  # tuples in memory
_USED = 1  # highest place ever taken: what lies above has never been touched
_FREE = 2  # first of the freed places, linked by `newer`; 0 = none
_FINGER = 3  # where the finger stands; 0 = beyond the oldest
_NEWER_THAN_FINGER = 4  # how many tuples are marked
_COUNTERS = 5

_LINK_BYTES = 4
_FIRST_ROOM = 64


class StreamTuples:
    """Stream tuples in arrays of fixed size; H_S and Q of the papers (000 §4.1, 003 §3.1).

    Args:
        capacity: how many tuples it takes.
        ranked: whether `at` is going to be asked; takes a byte more for each tuple.

    Attributes:
        tuples: shape (capacity + 1,), of dtype TUPLE.
        links: int32, shape (capacity + 1, 4): next and previous place in the chain, newer and older
            place in the queue; in row 0 the latter two are the oldest and the newest tuple.
        chains: int32, a power of two long; the first place of each chain, two for each bucket.
    """

    def __init__(self, capacity: int, *, ranked: bool = False) -> None:
        if not 0 < capacity <= MOST_TUPLES:
            raise ValueError(f"from 1 to {MOST_TUPLES} stream tuples can be held, not {capacity}")
        self.capacity = capacity
        # Zeroed memory becomes resident only where tuples come, so a large budget costs nothing by itself.
        self.tuples: NDArray[np.void] = np.zeros(capacity + 1, TUPLE)
        self.links: Int32Array = np.zeros((capacity + 1, _LINKS), np.int32)
        self.chains: Int32Array = np.zeros(_chain_count(capacity), np.int32)
        # 1 for each tuple that is newer than the finger's.
        self._marks: MarkArray | None = np.zeros(capacity + 1, np.uint8) if ranked else None
        self._counters: Int64Array = np.zeros(_COUNTERS, np.int64)
        self._state: _State = (self.tuples, self.links, self.chains, self._marks, self._counters)

    @staticmethod
    def bytes_for(capacity: int, *, ranked: bool = False) -> int:
        """Memory of this capacity, in bytes."""
        places = (capacity + 1) * (TUPLE.itemsize + _LINKS * _LINK_BYTES + ranked)
        return places + _chain_count(capacity) * _LINK_BYTES + _COUNTERS * 8

    def __len__(self) -> int:
        return int(self._counters[_LENGTH])

    @property
    def oldest(self) -> int:
        """Place of the tuple at the queue's end; 0 when there is none."""
        return int(self.links[RING, _NEWER])

    @property
    def newest(self) -> int:
        """Place of the tuple at the queue's start; 0 when there is none."""
        return int(self.links[RING, _OLDER])

    def newer_than(self, place: int) -> int:
        """Place of the tuple that came next after this one; 0 after the newest. O(1)."""
        return int(self.links[place, _NEWER])

    def at(self, newer: int) -> int:
        """Place of the tuple that so many others are newer than: 0 for the newest, length - 1 for the oldest.

        The queue must be ranked. O(changes of queue and position since the last call), so O(1) for each
        tuple that came or left while the position keeps still.
        """
        return int(_move_finger(self._state, newer))

    def page_of(self, place: int) -> int:
        """The page of R on which the tuple's key would be. O(1)."""
        return int(self.tuples["page"][place])

    def append(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        """Put tuples at the queue's start, the last one newest; there must be room. O(n).

        Args:
            keys: int64, shape (n,).
            pages: int64, shape (n,).
            ids: int64, shape (n,).
        """
        _append(self._state, keys, pages, ids)

    def take_page(self, page: int) -> tuple[Int64Array, Int64Array]:
        """Take out all tuples that wait for a page; their keys and ids, int64, shape (n,) each. O(n)."""
        return _take_page(self._state, page)

    def some_pages(self, start: int, count: int) -> Int64Array:
        """Pages at up to `count` places from one on: of tuples there, or that were there before. O(1): a view.

        Args:
            start: a place from 1 on; those never taken have no pages.
            count: at least 1.
        """
        return self.tuples["page"][start : min(start + count, self.places + 1)]

    @property
    def places(self) -> int:
        """The highest place ever taken."""
        return int(self._counters[_USED])

    def first_to_leave(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Key, page and id of the tuple at the queue's end, which stays; int64, shape (1,) each. There must be one."""
        oldest = self.tuples[[self.oldest]]
        return oldest["key"].copy(), oldest["page"].copy(), oldest["id"].copy()

    def take_oldest(self, count: int) -> tuple[Int64Array, Int64Array]:
        """Take out the tuples at the queue's end, oldest first. O(count).

        Returns:
            Their pages and ids, int64, shape (min(count, length),) each.
        """
        taken = np.empty((2, max(0, min(count, len(self)))), np.int64)
        _take_oldest(self._state, taken[0], taken[1])
        return taken[0], taken[1]

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self._state if array is not None)

    def check(self) -> None:
        """Assert that queue, chains and freed places are consistent and hold the same tuples. O(capacity)."""
        length, used = len(self), int(self._counters[_USED])
        assert 0 <= length <= used <= self.capacity
        queued = _walk(self.links[:, _NEWER], self.oldest)
        assert _walk(self.links[:, _OLDER], self.newest) == queued[::-1]
        freed = _walk(self.links[:, _NEWER], int(self._counters[_FREE]))
        assert len(queued) == length
        assert sorted(queued + freed) == list(range(1, used + 1))
        chained = []
        for chain in np.flatnonzero(self.chains):
            members = _walk(self.links[:, _NEXT], int(self.chains[chain]))
            assert self.links[members, _PREVIOUS].tolist() == [RING, *members[:-1]]
            assert all(_chain_of(self.page_of(place), place, self.chains) == chain for place in members)
            chained += members
        assert sorted(chained) == sorted(queued)
        if self._marks is not None:
            finger, newer = int(self._counters[_FINGER]), int(self._counters[_NEWER_THAN_FINGER])
            assert self._marks[queued].tolist() == [0] * (length - newer) + [1] * newer
            assert finger == (queued[length - newer - 1] if newer < length else RING)


def _walk(links: Int32Array, place: int) -> list[int]:
    """Places from one on, by a link, until there is none; fails in a cycle that it would never leave."""
    walked = []
    while place != RING:
        walked.append(place)
        place = int(links[place])
        assert len(walked) < len(links)
    return walked


def _chain_count(capacity: int) -> int:
    """A power of two between half the capacity and all of it: most pages have several tuples waiting."""
    return max(_CHAINS, 1 << (capacity // 2).bit_length())


@kernel_part
def _chain_of(page: Any, place: Any, chains: Int32Array) -> Any:
    """The chain of a tuple: its page chooses the bucket, its place one of the two chains."""
    return np.int64(mix(page) & np.uint64(len(chains) - _CHAINS)) + place % _CHAINS


@kernel_part
def _mark_newer(marks: Any, counters: Int64Array, place: Any) -> None:
    if marks is not None:
        marks[place] = 1
        counters[_NEWER_THAN_FINGER] += 1


@kernel
def _append(state: _State, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
    tuples, links, chains, marks, counters = state
    newest = links[RING, _OLDER]
    for i in range(len(keys)):
        place = counters[_FREE]
        if place:
            counters[_FREE] = links[place, _NEWER]
        else:
            counters[_USED] += 1
            place = counters[_USED]
        tuples[place].key, tuples[place].page, tuples[place].id = keys[i], pages[i], ids[i]
        chain = _chain_of(pages[i], place, chains)
        first = chains[chain]
        links[place, _NEXT], links[place, _PREVIOUS] = first, RING
        if first:
            links[first, _PREVIOUS] = place
        chains[chain] = place
        links[place, _NEWER], links[place, _OLDER] = RING, newest
        links[newest, _NEWER] = place
        newest = place
        _mark_newer(marks, counters, place)
    links[RING, _OLDER] = newest
    counters[_LENGTH] += len(keys)


@kernel_part
def _leave_chain(links: Int32Array, chains: Int32Array, chain: Any, place: Any, previous: Any) -> None:
    following = links[place, _NEXT]
    if previous:
        links[previous, _NEXT] = following
    else:
        chains[chain] = following
    if following:
        links[following, _PREVIOUS] = previous


@kernel_part
def _leave_queue(links: Int32Array, marks: Any, counters: Int64Array, place: Any) -> None:
    """Unlink a tuple from the queue, and free its place; a finger there gives way to the older side."""
    newer, older = links[place, _NEWER], links[place, _OLDER]
    if marks is not None:
        counters[_NEWER_THAN_FINGER] -= marks[place]
        if counters[_FINGER] == place:
            counters[_FINGER] = older
    links[newer, _OLDER] = older
    links[older, _NEWER] = newer
    links[place, _NEWER] = counters[_FREE]
    counters[_FREE] = place
    counters[_LENGTH] -= 1


@kernel
def _move_finger(state: _State, newer: int) -> int:
    _, links, _, marks, counters = state
    assert marks is not None
    finger, marked = counters[_FINGER], counters[_NEWER_THAN_FINGER]
    while marked > newer:
        finger = np.int64(links[finger, _NEWER])
        marks[finger] = 0
        marked -= 1
    while marked < newer:
        marks[finger] = 1
        marked += 1
        finger = np.int64(links[finger, _OLDER])
    counters[_FINGER], counters[_NEWER_THAN_FINGER] = finger, marked
    return finger


@kernel
def _take_oldest(state: _State, pages: Int64Array, ids: Int64Array) -> None:
    tuples, links, chains, marks, counters = state
    for i in range(len(ids)):
        place = np.int64(links[RING, _NEWER])
        pages[i], ids[i] = tuples[place].page, tuples[place].id
        chain = _chain_of(pages[i], place, chains)
        _leave_chain(links, chains, chain, place, links[place, _PREVIOUS])
        _leave_queue(links, marks, counters, place)


@kernel
def _take_page(state: _State, page: int) -> tuple[Int64Array, Int64Array]:
    """Take out all tuples of a page: their keys and ids."""
    keys, ids = np.empty(_FIRST_ROOM, np.int64), np.empty(_FIRST_ROOM, np.int64)
    chains = state[2]
    walk = np.zeros((_CHAINS, 2), np.int64)  # For each chain: the place reached, the one kept before it.
    for way in range(_CHAINS):
        walk[way, 0] = chains[_chain_of(page, way, chains)]
    count = 0
    while walk[0, 0] or walk[1, 0]:  # Not `any`: to load that takes a worker as long as all kernels together.
        if count + _CHAINS > len(keys):
            keys, ids = _doubled(keys), _doubled(ids)
        count = _take_from_chains(state, page, walk, (keys, ids), count)
    return keys[:count], ids[:count]


@kernel
def _take_from_chains(state: _State, page: int, walk: Int64Array, taken: Any, count: int) -> int:
    """Follow the chains of a bucket in turn until they end or the room does; keep the tuples of other pages there."""
    tuples, links, chains, marks, counters = state
    keys, ids = taken
    active = True
    while active and count + _CHAINS <= len(keys):
        active = False
        for way in range(_CHAINS):
            place = walk[way, 0]
            if place:
                active = True
                walk[way, 0] = links[place, _NEXT]
                if tuples[place].page == page:
                    keys[count], ids[count] = tuples[place].key, tuples[place].id
                    count += 1
                    # Its link to the one before has just been written: to read it back would stall.
                    _leave_chain(links, chains, _chain_of(page, way, chains), place, walk[way, 1])
                    _leave_queue(links, marks, counters, place)
                else:
                    walk[way, 1] = place
    return count


@kernel
def _doubled(values: Int64Array) -> Int64Array:
    wider = np.empty(2 * len(values), np.int64)
    wider[: len(values)] = values
    return wider
