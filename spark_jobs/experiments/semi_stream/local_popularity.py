"""Popularity of keys where the stream moves through R's domain, over all of its intervals."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity


@dataclass(frozen=True)
class LocalPopularity:
    """Temporal locality of 003 §5.2.1 over a whole period: every part of the domain is equally popular.

    Attributes:
        parts: of the domain.
        part: the popularity of keys in one.
    """

    parts: int
    part: StreamPopularity

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for the most frequent so many keys."""
        return self.part.share_of_hottest(keys / self.parts)

    def keys(self) -> PagePopularity:
        """The popularity of single keys."""
        return self._in_all_parts(self.part.keys())

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages, without that of the most frequent keys."""
        return self._in_all_parts(self.part.pages(page_rows, without_hottest / self.parts))

    def _in_all_parts(self, one: PagePopularity) -> PagePopularity:
        return PagePopularity(one.probabilities / self.parts, one.page_counts * self.parts)
