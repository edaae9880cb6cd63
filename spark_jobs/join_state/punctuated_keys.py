"""What punctuations have said of a stream's keys: of which no more tuples come (001 §2.2), and for how long that holds.

What says so are tuples: each one (a unique key), one that is marked, or as many as another stream's tuple has told. Of
these the keys are kept, in segments like the tuples' own, until the stream has come past their time:

    tuple of stream a    [start, end)            W, the window
    holds until                      end + W

What is purged for that ends by then, at the latest; what comes to stream a afterwards starts then, at the earliest. So
the two would not have met, and the punctuation can be forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.join_state.correlated import CorrelatedStream, KeyEnd
from spark_jobs.join_state.key_codes import Codes
from spark_jobs.join_state.segment import Segment
from spark_jobs.join_state.stream_tuples import StreamTuples, equal

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = -(2**63)
"""Until when a key has ended that has not."""
_FOR_EVER = 2**63 - 1
_NOT_TOLD = -1
_NO_TUPLES = pa.table({})
_COUNT = "count"


class KeysTold(NamedTuple):
    """What is known of the keys of n tuples.

    Attributes:
        until: int64, shape (n,): no tuple of the key comes before the stream has come so far, in microseconds since
            1970; NEVER where more may come.
        came: int64, shape (n,): with `count`, how many have come.
        told: int64, shape (n,): with `count`, how many are to come; -1 where that is not told yet.
    """

    until: Int64Array
    came: Int64Array
    told: Int64Array


class PunctuatedKeys:
    """The punctuations of one stream.

    Args:
        rule: what tells that no more of a key come.
        tuples: what has told so, and was not forgotten: `key_0`, `key_1` ...; with `count` also `count`, null in the
            stream's own tuples. They end when they are forgotten.
    """

    def __init__(self, rule: KeyEnd, tuples: StreamTuples) -> None:
        self._rule = rule
        self._tuples = tuples

    def of(self, tuples: pa.Table, key: Sequence[str], keys: Codes, reached: int) -> KeysTold:
        """What is known of the keys of some tuples, of this stream or of another.

        O(n log(1 + segment / n)) a segment, and O(1) for each that has told something of the keys.

        Args:
            tuples: shape (n,); only looked at where codes don't tell all keys apart.
            key: their columns.
            keys: codes of these.
            reached: how far this stream has come.
        """
        order = np.argsort(keys.codes, kind="stable")
        ordered = keys.codes[order]
        until = np.full(len(order), NEVER)
        came, told, least = (
            np.zeros(len(order), np.int64),
            np.full(len(order), _NOT_TOLD),
            np.full(len(order), 2**63 - 1),
        )
        for segment in self._tuples.segments:
            asked, rows = segment.same_keys(ordered)
            there = segment.ends[rows] > reached
            asked, rows = order[asked[there]], rows[there]
            if len(asked) and not keys.exact:
                same = equal(tuples.take(asked), segment.tuples.take(rows), key, _key_columns(key))
                asked, rows = asked[same], rows[same]
            if not len(asked):
                continue
            np.maximum.at(until, asked, segment.ends[rows])
            if self._rule.count is not None:
                counts = segment.tuples[_COUNT].take(rows)
                own = counts.is_null().to_numpy()
                np.add.at(came, asked[own], 1)
                np.minimum.at(least, asked, segment.ends[rows])
                # The first that tells it is believed.
                telling = np.flatnonzero(~own)
                telling = telling[np.argsort(-segment.ids[rows[telling]])]
                telling = telling[told[asked[telling]] == _NOT_TOLD]
                told[asked[telling]] = counts.fill_null(0).to_numpy()[telling]
        if self._rule.count is not None:
            until = np.where((told != _NOT_TOLD) & (came >= told), least, NEVER)
        return KeysTold(until, came, told)

    def at_most(self, codes: Int64Array, reached: int) -> Int64Array:
        """Until when keys have ended, by their codes alone: where several keys have one, the most that any may have.

        Int64, shape (n,); arguments and costs as of `of`.
        """
        known = self.of(_NO_TUPLES, (), Codes(codes, True), reached)
        return np.where(known.told == _NOT_TOLD, known.until, _FOR_EVER)

    def after_last(self, tuples: pa.Table, stream: CorrelatedStream, keys: Codes, taken: Flags, reached: int) -> Flags:
        """Which tuples of this stream come after the last of their key; bool, shape (n,). O(n log n), and as of `of`.

        Args:
            tuples: in the order of their arrival, shape (n,).
            stream: this one.
            keys: codes of their keys.
            taken: bool, shape (n,): which the state would take otherwise; the others say nothing.
            reached: how far this stream has come.
        """
        known = self.of(tuples, stream.key, keys, reached)
        groups = _groups(tuples, stream.key, keys)
        if self._rule.count is not None:
            before = known.came + _taken_before(groups, taken)
            return (known.told != _NOT_TOLD) & (before >= known.told)
        first = np.full(groups.max() + 1, len(groups))
        says = np.flatnonzero(taken & self._marked(tuples))
        np.minimum.at(first, groups[says], says)
        after: Flags = (known.until != NEVER) | (np.arange(len(groups)) > first[groups])
        return after

    def tell(self, tuples: pa.Table, key: Sequence[str], codes: Int64Array, until: Int64Array) -> int:
        """Take what tuples of this stream say that the state has taken; how many punctuations that makes.

        Args:
            tuples: shape (n,).
            key: their key's columns.
            codes: int64, shape (n,): of their keys.
            until: int64, shape (n,): how long each holds.
        """
        if self._rule.count is not None:
            self._add(tuples, key, codes, until, pa.nulls(tuples.num_rows, pa.int64()))
            return 0
        marked = np.flatnonzero(self._marked(tuples))
        self._add(tuples.take(marked), key, codes[marked], until[marked])
        return len(marked)

    def tell_counts(self, tuples: pa.Table, key: Sequence[str], codes: Int64Array, until: Int64Array) -> int:
        """The same of tuples of the other stream, that say how many tuples of this one come."""
        assert self._rule.count is not None
        counts = tuples[self._rule.count[1]].combine_chunks().cast(pa.int64())
        telling = np.flatnonzero(counts.is_valid().to_numpy(zero_copy_only=False))
        # None come, where it is less than that.
        counts = pa.array(np.maximum(counts.take(telling).to_numpy(), 0))
        self._add(tuples.take(telling), key, codes[telling], until[telling], counts)
        return len(telling)

    def forget(self, reached: int) -> None:
        """Forget what does not hold any more, when the stream has come so far."""
        for _ in self._tuples.leave(reached):  # They count as joined: none of them is told.
            raise AssertionError("a punctuation has expired")

    def _marked(self, tuples: pa.Table) -> Flags:
        """Which tuples are the last of their key, by what they say themselves."""
        if self._rule.when is None:
            return np.ones(tuples.num_rows, np.bool_)
        marked: Flags = tuples[self._rule.when].fill_null(False).to_numpy()
        return marked

    def _add(
        self, tuples: pa.Table, key: Sequence[str], codes: Int64Array, until: Int64Array, counts: pa.Array | None = None
    ) -> None:
        if not tuples.num_rows:
            return
        told = pa.table([tuples[name] for name in key], _key_columns(key))
        if counts is not None:
            told = told.append_column(_COUNT, counts)
        self._tuples.add(trace(self._tuples.next_id, codes, until, until, np.zeros(len(codes), np.int64), told))


def trace(
    first_id: int, keys: Int64Array, starts: Int64Array, ends: Int64Array, events: Int64Array, tuples: pa.Table
) -> Segment:
    """What is left of tuples that nothing can be joined with any more: nobody waits for them. Arguments: shape (n,)."""
    ids = np.arange(first_id, first_id + len(keys))
    return Segment.of((ids, keys, starts, ends, events), tuples, np.ones(len(keys), np.bool_))


def _key_columns(key: Sequence[str]) -> list[str]:
    return [f"key_{number}" for number in range(len(key))]


def _groups(tuples: pa.Table, key: Sequence[str], keys: Codes) -> Int64Array:
    """Numbers of the keys of tuples: equal for equal keys, and for no others; int64, shape (n,). O(n log n)."""
    if keys.exact:
        return np.unique(keys.codes, return_inverse=True)[1]
    values = [tuples[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in key]
    return np.unique(np.stack(values), axis=1, return_inverse=True)[1].reshape(-1)


def _taken_before(groups: Int64Array, taken: Flags) -> Int64Array:
    """How many tuples of its group are taken before each; int64, shape (n,). O(n log n)."""
    order = np.argsort(groups, kind="stable")
    before: Int64Array = np.cumsum(taken[order]) - taken[order]
    ordered = groups[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    before -= np.repeat(before[firsts], np.diff(np.append(firsts, len(order))))
    counted = np.empty(len(order), np.int64)
    counted[order] = before
    return counted
