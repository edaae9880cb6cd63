"""How frequent a tuple of R must be to be accepted for the front stage: a barrier that moves by itself."""

from __future__ import annotations

# When it keeps still, so many tuples are accepted: one for so many stream tuples that the cache saves from the back
# stage, as an accepted tuple costs about as much time (it is copied, compared, and put in a new version) as those save;
_HITS_FOR_ONE = 64
# and one for so many stream tuples of all, so that a cache that saves nothing goes on to learn.
_STREAM_TUPLES_FOR_ONE = 1024
_MOST_RISE = 2.0
_MOST_FALL = 0.8
_FALL_WHILE_NOT_FULL = 0.5
_LOWEST = 1.0


class AdmissionThreshold:
    """The threshold of 003 §3.2.1: lowered while the cache is not full, raised when tuples are evicted too frequently.

    A full cache evicts for every tuple that it takes. "Too frequently" is taken to mean: more often than what
    the cache saves is worth. So where no tuple is more popular than others it rises until few pass by chance.

    Attributes:
        value: the frequency that a tuple needs, in stream tuples.
    """

    def __init__(self) -> None:
        self.value = _LOWEST

    def adapt(self, *, full: bool, accepted: int, stream_tuples: int, hit_ratio: float) -> None:
        """Move after the cache may have changed: by the square root of how far off the rate was, within bounds.

        Args:
            full: whether every slot of the cache is taken.
            accepted: tuples accepted since it last moved.
            stream_tuples: that came meanwhile.
            hit_ratio: part of the stream whose tuples are in the cache.
        """
        if full:
            wanted = max(1, stream_tuples) * (hit_ratio / _HITS_FOR_ONE + 1 / _STREAM_TUPLES_FOR_ONE)
            self.value *= max(_MOST_FALL, min((accepted / wanted) ** 0.5, _MOST_RISE))
        else:
            self.value *= _FALL_WHILE_NOT_FULL
        self.value = max(_LOWEST, self.value)


class FixedThreshold(AdmissionThreshold):
    """A barrier that stays where it is (003 §5.4, Fig. 9b).

    Args:
        value: the frequency that a tuple needs, in stream tuples.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def adapt(self, *, full: bool, accepted: int, stream_tuples: int, hit_ratio: float) -> None:
        """Stay."""
