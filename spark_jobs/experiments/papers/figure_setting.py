"""Under what a figure is measured: the scale, the disk, and who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers.disks import Disk

Item = TypeVar("Item")


@dataclass(frozen=True)
class Scale:
    """How large the figures are measured.

    Attributes:
        name: on the command line.
        hybrid_join_part: sizes of R and memory of 000, as parts of the paper's; and of the streams of 002.
        caching_part: the same for 003.
        sort_based_part: lengths of the streams, window and memory of 004, as parts of the paper's.
        sketches_part: sizes of the domain and the streams of 001's sketches, as parts of the paper's.
        seeds: runs of a point whose confidence interval the paper gives; equal seeds give equal streams.
        minutes: of stream time before waiting times are measured, and while they are; the paper's are 20.
        dense: whether every point of a line is measured, or only enough to tell who beats whom.
    """

    name: str
    hybrid_join_part: float
    caching_part: float
    sort_based_part: float
    sketches_part: float
    seeds: tuple[int, ...]
    minutes: float
    dense: bool = True

    def part(self, figure_id: str) -> float:
        """Sizes of a figure's R and memory, as a part of the paper's."""
        if figure_id.startswith("001"):
            # PJoin's figures show runs of which the paper gives no length.
            return self.sketches_part if "sketches" in figure_id else 1.0
        parts = {"000": self.hybrid_join_part, "002": self.hybrid_join_part, "004": self.sort_based_part}
        return parts.get(figure_id[:3], self.caching_part)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("tiny", 1 / 16, 1 / 400, 1 / 5, 1 / 16, seeds=(1, 2), minutes=0.5, dense=False),
        Scale("small", 1 / 4, 1 / 100, 1, 1, seeds=(1, 2, 3), minutes=2),
        Scale("paper", 1, 1, 1, 1, seeds=(1, 2, 3), minutes=20),
    )
}


def scale_of(name: str) -> Scale:
    """The scale of this name.

    Raises:
        WorkloadError: there is none.
    """
    if name not in SCALES:
        raise WorkloadError(f"There is no scale {name!r}: give one of {', '.join(SCALES)}.")
    return SCALES[name]


@dataclass(frozen=True)
class FigureSetting:
    """What every figure's measurement is given.

    Attributes:
        scale: how large.
        disk: where R lies.
        watch: told what is being measured and the share of the figure that is done.
    """

    scale: Scale
    disk: Disk
    watch: Callable[[str, float], None] = lambda what, share: None

    def each(self, items: Sequence[Item], name: Callable[[Item], str] = str) -> Iterator[Item]:
        """The items in turn, while `watch` is told how far the figure is."""
        for number, item in enumerate(items):
            self.watch(name(item), number / len(items))
            yield item
        self.watch("", 1.0)

    def some(self, values: Sequence[float], few: Sequence[float] = ()) -> list[float]:
        """The values of a parameter to measure: all, or `few` of them; without these first, middle and last."""
        if self.scale.dense or len(values) <= 3:
            return list(values)
        return list(few) or [values[0], values[len(values) // 2], values[-1]]
