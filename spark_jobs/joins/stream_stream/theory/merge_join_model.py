"""Pages written and read by PMJ and TPMJ, and when TPMJ beats the temporal join (004 §4.2, §5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from spark_jobs.joins.stream_stream.merge_strategies import MergeStrategy, Waiting, last_span, level_of


@dataclass(frozen=True)
class MergeSetting:
    """A progressive merge join at work on streams of one rate.

    Attributes:
        streams: n.
        memory_tuples: how many tuples of all streams memory takes until it writes them as a group.
        window_tuples: how many of one stream are valid at a time; infinite for PMJ, which keeps all.
        page_tuples: how many tuples a page holds.
        fan_in: runs read at once, of all streams together.
    """

    streams: int
    memory_tuples: int
    window_tuples: float
    page_tuples: int
    fan_in: int

    @property
    def groups_at_once(self) -> int:
        """How many groups a merge with results takes at most."""
        return max(2, self.fan_in // self.streams)

    def pages(self, tuples: float) -> int:
        """Pages of a group: its streams' runs end with a page each that may not be full."""
        return self.streams * ceil(tuples / self.streams / self.page_tuples)


@dataclass(frozen=True)
class Pages:
    """What a run of a join costs on disk.

    Attributes:
        written: pages.
        read: pages.
    """

    written: int
    read: int

    @property
    def accesses(self) -> int:
        """Both."""
        return self.written + self.read


def merge_join_pages(setting: MergeSetting, strategy: MergeStrategy, tuples: int) -> Pages:
    """What a join costs from its first tuple to its last: the strategy, played with the groups' sizes alone.

    Args:
        setting: memory, window, pages and fan-in.
        strategy: chooses the merges; after each group that memory writes it is asked until it waits.
        tuples: of all streams together.
    """
    groups: list[float] = []
    written = read = 0
    kept = setting.streams * setting.window_tuples
    at_once = setting.groups_at_once
    inner = at_once if kept == inf else max(at_once, setting.fan_in)

    def merge(first: int, many: int, *, ending: bool = False) -> None:
        nonlocal written, read
        merged = groups[first : first + many]
        read += sum(setting.pages(size) for size in merged)
        size = min(kept, sum(merged)) if first == 0 else sum(merged)
        groups[first : first + many] = [] if ending else [size]
        written += 0 if ending else setting.pages(size)

    for come in range(0, tuples, setting.memory_tuples):
        group = min(setting.memory_tuples, tuples - come)
        written += setting.pages(group)
        groups.append(group)
        if group < setting.memory_tuples:
            break
        while True:
            levels = [level_of(size, setting.memory_tuples, at_once) for size in groups]
            span = strategy.choose(Waiting(levels, at_once, inner, 0))
            if span is None:
                break
            merge(*span)
    while groups:
        span = last_span(groups, at_once, inner)
        merge(*span, ending=span.many == len(groups))
    return Pages(written, read)


def pages_a_tuple(setting: MergeSetting, groups_merged: float) -> float:
    """Page accesses of TPMJ for each tuple that comes, once the window is full.

    Memory is written, and read once; the flank, a window long, is read and written for every groups_merged - 1 that
    memory wrote: (2 + 2 w n / ((g - 1) m)) / p.

    Args:
        setting: memory, window and pages.
        groups_merged: g, with the flank's: 2 for Greedy, the whole fan-in for MaxFanIn.
    """
    flank = setting.streams * setting.window_tuples / ((groups_merged - 1) * setting.memory_tuples)
    return (2 + 2 * flank) / setting.page_tuples


def temporal_join_pages_a_tuple(setting: MergeSetting) -> float:
    """Page accesses of a temporal join for each tuple that comes, whose sweep areas go to disk where memory ends.

    A tuple asks the other streams' areas: a page of each, by an index, for the part that is not in memory; and its own
    page is written and read once.
    """
    on_disk = max(0.0, 1 - setting.memory_tuples / (setting.streams * setting.window_tuples))
    return on_disk * (setting.streams - 1 + 2 / setting.page_tuples)


def progressive_is_better(setting: MergeSetting) -> bool:
    """Whether TPMJ, at its full fan-in, takes fewer pages than the temporal join; not if the areas fit into memory."""
    return pages_a_tuple(setting, setting.groups_at_once) < temporal_join_pages_a_tuple(setting)
