"""Finds what ends the process that reads a slice: by halves, as many times as it takes to come to single records."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from spark_jobs.errors import FreshetError
from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.source.slices import SourceSlice

_MOST_SPANS = 64
"""What ends the process in more places of a slice is not taken apart any further: those who send it choose the work."""


class Death(NamedTuple):
    """How a process ended that was to read something.

    Attributes:
        how: in words.
        is_certain: whether it would not have ended so with more memory.
    """

    how: str
    is_certain: bool = True


Reads = Callable[[SourceSlice], Death | None]
"""Has a process read a slice; how that died. None: it did not, or it can't be told in the time that is left."""


IsLate = Callable[[], bool]
"""Tells whether the time for the search is over."""


def find_poison(piece: SourceSlice, reads: Reads, is_late: IsLate, *, indivisible: bool) -> list[PoisonSpan]:
    """What of a slice ends the process that reads it. O(k log n) tries for k records of n.

    Args:
        piece: the slice.
        reads: tries it.
        is_late: whether to stop, and take what is narrowed down by then.
        indivisible: whether no single records of it can be read: Parquet is sound or poison as a whole.
    """
    death = reads(piece)
    if death is None:
        return []
    try:
        if indivisible or reads(piece.window(piece.first, piece.first)) is not None:
            return _of_file(piece, reads)
        first, last = piece.bounds()
        return _Search(piece, reads, is_late).narrowed(_Suspect(first, last, death))
    except (OSError, EOFError, zlib.error, pa.ArrowException, FreshetError):
        return []  # it is gone, or damaged: reading it tells


def _of_file(piece: SourceSlice, reads: Reads) -> list[PoisonSpan]:
    """The whole file, if it ends the process once more."""
    death = None if piece.is_loaded_in_part else reads(piece)
    return [] if death is None else [PoisonSpan.of_file(death.how)]


class _Suspect(NamedTuple):
    """A window of positions that has ended a process."""

    first: int
    last: int
    death: Death

    @property
    def is_single(self) -> bool:
        """Whether it has one record."""
        return self.last - self.first == 1

    @property
    def span(self) -> PoisonSpan:
        """It, as poison."""
        return PoisonSpan(self.first, self.last, self.death.how)


class _Search:
    """Narrows down what of one slice ends the process that reads it.

    Args:
        piece: the slice.
        reads: tries a part of it.
        is_late: whether to stop.
    """

    def __init__(self, piece: SourceSlice, reads: Reads, is_late: IsLate) -> None:
        self._piece = piece
        self._reads = reads
        self._is_late = is_late

    def narrowed(self, suspect: _Suspect) -> list[PoisonSpan]:
        """Windows, as narrow as they can be, that end the process whenever they are read.

        Level by level: whatever makes the search stop, there is no poison outside of the windows that it has then.
        """
        suspects, found = [suspect], list[_Suspect]()
        while suspects and len(suspects) + len(found) <= _MOST_SPANS and not self._is_late():
            narrower = []
            for each in suspects:
                halves = [] if each.is_single else list(self._deadly_halves(each))
                if self._is_late() and len(halves) < 2:
                    halves = [each]  # they may not have been tried
                narrower += halves
                if not halves:
                    found.append(each)
            suspects = narrower
        found = [each for each in found if self._is_late() or self._is_to_blame(each)]
        return [each.span for each in sorted(found + suspects)]

    def _deadly_halves(self, suspect: _Suspect) -> Iterator[_Suspect]:
        middle = (suspect.first + suspect.last) // 2
        for first, last in ((suspect.first, middle), (middle, suspect.last)):
            part = self._piece.window(first, last)
            death = self._reads(part) if part.first < part.last else None
            if death is not None:
                one = part.has_one_record
                yield _Suspect(part.first, part.first + 1, death) if one else _Suspect(first, last, death)

    def _is_to_blame(self, suspect: _Suspect) -> bool:
        """Whether it ends the process again; several records that lack memory only together are not to blame."""
        can_be = suspect.is_single or suspect.death.is_certain
        return can_be and self._reads(self._piece.window(suspect.first, suspect.last)) is not None
