"""How frequent a tuple of R must be to be accepted for the front stage: a barrier that moves by itself."""

from __future__ import annotations

# Parts of the cache that may come in vain from one version to the next.
_TOO_MANY = 1 / 25
_FEW = 1 / 200
_RISE = 1.25
_FALL = 0.8
_FALL_WHILE_NOT_FULL = 0.5
_LOWEST = 1.0


class AdmissionThreshold:
    """The threshold of 003 §3.2.1: lowered while the cache is not full, raised when tuples are evicted too frequently.

    "Too frequently" is taken to mean: soon after they came. When the popularity of tuples has shifted,
    many are evicted that were popular for long, and raising the threshold then would only delay those
    that are popular now.

    Attributes:
        value: the frequency that a tuple needs, in stream tuples.
    """

    def __init__(self) -> None:
        self.value = _LOWEST

    def adapt(self, *, full: bool, in_vain: float) -> None:
        """Move after the cache has changed.

        Args:
            full: whether every slot of the cache is taken.
            in_vain: tuples evicted soon after they came, as a part of the cache's capacity.
        """
        if not full:
            self.value *= _FALL_WHILE_NOT_FULL
        elif in_vain > _TOO_MANY:
            self.value *= _RISE
        elif in_vain < _FEW:
            self.value *= _FALL
        self.value = max(_LOWEST, self.value)


class FixedThreshold(AdmissionThreshold):
    """A barrier that stays where it is (003 §5.4, Fig. 9b).

    Args:
        value: the frequency that a tuple needs, in stream tuples.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def adapt(self, *, full: bool, in_vain: float) -> None:
        """Stay."""
