"""What punctuations have said of a stream's keys: of which no more tuples come (001 §2.2), and for how long that holds.

What says so are tuples: each one (a unique key), one that is marked, or as many as another stream's tuple has told. Of
these the keys are kept, in segments like the tuples' own, until the stream has come past their time:

    tuple of stream a    [start, end)            W, the window
    holds until                      end + W

What is purged for that ends by then, at the latest; what comes to stream a afterwards starts then, at the earliest. So
the two would not have met, and the punctuation can be forgotten. Until then the event that says so is known by its id
when it comes again: it is not after its own last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.value_codes import Codes
from spark_jobs.join_state.correlated import CorrelatedStream
from spark_jobs.join_state.segment import Segment
from spark_jobs.join_state.stream_tuples import StreamTuples, equal

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = -(2**63)
"""Until when a key has ended that has not."""
_FOR_EVER = 2**63 - 1
_NOT_TOLD = -1
# Of a stream's own tuples their event ids stand beside; names of theirs don't begin with a dot.
_COUNT = ".count"


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
        stream: it has some.
        tuples: what has told so, and was not forgotten: `.key_0`, `.key_1` ... and the event id; with `count` also
            `.count`, null in the stream's own tuples, as the event id is in those of the other. They end when they are
            forgotten.
    """

    def __init__(self, stream: CorrelatedStream, tuples: StreamTuples) -> None:
        assert stream.punctuation is not None
        self._stream = stream
        self._rule = stream.punctuation
        self._tuples = tuples

    def is_told_by(self, stream: int) -> bool:
        """Whether tuples of another stream say how many of this one's come."""
        return self._rule.count is not None and self._rule.count[0] == stream

    def known(self, tuples: pa.Table, events: Int64Array, order: Int64Array, reached: int) -> Flags:
        """Which tuples of this stream have themselves told something: as `StreamTuples.known`."""
        # Never exact: the other stream's tuples have no event id here, which their codes don't say.
        return self._tuples.known(tuples, events, order, reached, exact=False)

    def of(self, tuples: pa.Table, key: Sequence[str], keys: Codes, reached: int) -> KeysTold:
        """What is known of the keys of some tuples, of this stream or of another.

        O(n log(1 + segment / n)) a segment, and O(1) for each that has told something of the keys.

        Args:
            tuples: shape (n,); only looked at where codes don't tell all keys apart.
            key: their columns.
            keys: codes of these.
            reached: how far this stream has come.
        """
        return self._known_of(keys.codes, reached, None if keys.exact else (tuples, key))

    def _known_of(
        self, codes: Int64Array, reached: int, compared: tuple[pa.Table, Sequence[str]] | None = None
    ) -> KeysTold:
        """What is known of keys with these codes; of those only that are equal, where there is what to compare."""
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        until = np.full(len(order), NEVER)
        least = np.full(len(order), _FOR_EVER)
        came = np.zeros(len(order), np.int64)
        told = np.full(len(order), _NOT_TOLD)
        for segment in self._tuples.segments:
            asked, rows = segment.same_keys(ordered)
            there = segment.ends[rows] > reached
            asked, rows = order[asked[there]], rows[there]
            if len(asked) and compared is not None:
                tuples, key = compared
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
                telling = telling[np.argsort(rows[telling])]
                telling = telling[told[asked[telling]] == _NOT_TOLD]
                keys, first = np.unique(asked[telling], return_index=True)
                told[keys] = counts.fill_null(0).to_numpy()[telling[first]]
        if self._rule.count is not None:
            until = np.where((told != _NOT_TOLD) & (came >= told), least, NEVER)
        return KeysTold(until, came, told)

    def at_most(self, codes: Int64Array, reached: int) -> Int64Array:
        """Until when keys have ended, by their codes alone: where several keys have one, the most that any may have.

        Int64, shape (n,); arguments and costs as of `of`.
        """
        known = self._known_of(codes, reached)
        return np.where(known.told == _NOT_TOLD, known.until, _FOR_EVER)

    def after_last(self, tuples: pa.Table, keys: Codes, taken: Flags, reached: int) -> Flags:
        """Which tuples of this stream come after the last of their key; bool, shape (n,). O(n log n), and as of `of`.

        Args:
            tuples: in the order of their arrival, shape (n,).
            keys: codes of their keys.
            taken: bool, shape (n,): which the state would take otherwise; the others say nothing.
            reached: how far this stream has come.
        """
        key = self._stream.key
        known = self.of(tuples, key, keys, reached)
        groups = _groups(tuples, key, keys)
        if self._rule.count is not None:
            before = known.came + _taken_before(groups, taken)
            return (known.told != _NOT_TOLD) & (before >= known.told)
        first = np.full(groups.max() + 1, len(groups))
        says = np.flatnonzero(taken & self._marked(tuples))
        np.minimum.at(first, groups[says], says)
        after: Flags = (known.until != NEVER) | (np.arange(len(groups)) > first[groups])
        return after

    def tell(self, tuples: pa.Table, keys: Int64Array, events: Int64Array, until: Int64Array) -> int:
        """Take what tuples of this stream say that the state has taken; how many punctuations that makes.

        Args:
            tuples: shape (n,).
            keys: int64, shape (n,): codes of their keys.
            events: int64, shape (n,): codes of their event ids.
            until: int64, shape (n,): how long each holds.
        """
        event_id = list(self._stream.event_id)
        if self._rule.count is not None:
            counts = pa.nulls(tuples.num_rows, pa.int64())
            told = tuples.select(event_id).append_column(_COUNT, counts)
            self._add(tuples, self._stream.key, told, keys, events, until)
            return 0
        marked = np.flatnonzero(self._marked(tuples))
        tuples = tuples.take(marked)
        self._add(tuples, self._stream.key, tuples.select(event_id), keys[marked], events[marked], until[marked])
        return len(marked)

    def tell_counts(self, tuples: pa.Table, key: Sequence[str], keys: Int64Array, until: Int64Array) -> int:
        """The same of tuples of the other stream, with its key, that say how many tuples of this one come."""
        assert self._rule.count is not None
        counts = tuples[self._rule.count[1]].combine_chunks().cast(pa.int64())
        telling = np.flatnonzero(counts.is_valid().to_numpy(zero_copy_only=False))
        # None come, where it is less than that.
        counts = pa.array(np.maximum(counts.take(telling).to_numpy(), 0))
        nobody = [pa.nulls(len(telling)) for _ in self._stream.event_id]
        told = pa.table([*nobody, counts], [*self._stream.event_id, _COUNT])
        events = np.zeros(len(telling), np.int64)
        self._add(tuples.take(telling), key, told, keys[telling], events, until[telling])
        return len(telling)

    def forget(self, reached: int) -> None:
        """Forget what does not hold any more, when the stream has come so far."""
        for _ in self._tuples.leave(reached, reached):  # They count as joined: none of them is told.
            raise AssertionError("a punctuation has expired")

    def _marked(self, tuples: pa.Table) -> Flags:
        """Which tuples are the last of their key, by what they say themselves."""
        if self._rule.when is None:
            return np.ones(tuples.num_rows, np.bool_)
        marked: Flags = tuples[self._rule.when].fill_null(False).to_numpy()
        return marked

    def _add(
        self,
        tuples: pa.Table,
        key: Sequence[str],
        told: pa.Table,
        keys: Int64Array,
        events: Int64Array,
        until: Int64Array,
    ) -> None:
        for column, name in zip(_key_columns(key), key, strict=True):
            told = told.append_column(column, tuples[name])
        if tuples.num_rows:
            self._tuples.add(trace(self._tuples.next_id, keys, until, until, events, told))


def trace(
    first_id: int, keys: Int64Array, starts: Int64Array, ends: Int64Array, events: Int64Array, tuples: pa.Table
) -> Segment:
    """What is left of tuples that nothing can be joined with any more: nobody waits for them. Arguments: shape (n,)."""
    ids = np.arange(first_id, first_id + len(keys))
    return Segment.of((ids, keys, starts, ends, events), tuples, np.ones(len(keys), np.bool_))


def _key_columns(key: Sequence[str]) -> list[str]:
    return [f".key_{number}" for number in range(len(key))]


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
