"""Reads R from its first page to its last, again and again, through a disk buffer of one page."""

from __future__ import annotations

from spark_jobs.errors import JoinStateError
from spark_jobs.joins.semi_stream.base import Page, Relation, Statistics


class CyclicScan:
    """A place in R that moves on page by page; no index is used, so R may be in any order.

    Pages that are appended to R are read in their turn, in this cycle if it has not reached the end.

    Args:
        relation: R.
        statistics: where the reads are counted.

    Attributes:
        next_page: the page that is read next.
    """

    def __init__(self, relation: Relation, statistics: Statistics) -> None:
        self._relation = relation
        self._statistics = statistics
        self._disk_buffer: Page | None = None
        self._most_pages = 0
        self.next_page = 0

    @property
    def page_count(self) -> int:
        """Pages of a cycle."""
        return max(1, self._relation.page_count)

    @property
    def share_read(self) -> float:
        """How much of this cycle has been read, above 0 and up to 1; asked after every read."""
        return self.next_page / self.page_count if self.next_page else 1.0

    def read(self) -> Page:
        """Read the next page into the disk buffer, and move on.

        Raises:
            JoinStateError: R has fewer pages than before: what has been read of it can't be told any more.
        """
        if self.page_count < self._most_pages:
            raise JoinStateError(
                f"R had {self._most_pages} pages and has {self.page_count}: a scan goes on only while R keeps its "
                "pages; finish before R is cut anew"
            )
        self._most_pages = self.page_count
        self._disk_buffer = None  # The new page takes the old one's memory.
        page = self._disk_buffer = self._relation.read_page(self.next_page)
        self._statistics.pages_read += 1
        self._statistics.bytes_read += page.size
        self._statistics.probes += len(page.keys)
        following = self.next_page + 1
        self.next_page = following if following < self.page_count else 0
        return page

    def has_come_round_to(self, page: int) -> bool:
        """Whether, since `page` was next, each page has been read that there was then; asked after every read."""
        return page == self.next_page or (self.next_page == 0 and page >= self.page_count)

    def memory_used(self) -> int:
        """Bytes of the page in the disk buffer."""
        return self._disk_buffer.size if self._disk_buffer else 0
