"""One lookup as the tasks of a batch carry it out; pickled into them by the driver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.lookup.hot_keys.publishing import MappedBroadcast
from spark_jobs.lookup.relation.back_stage_join import back_stages
from spark_jobs.lookup.relation.page_index import PageIndex, PageRanges
from spark_jobs.lookup.relation.queries import sample_query
from spark_jobs.lookup.relation.reading_connection import copy_out, reading_connection
from spark_jobs.lookup.relation.relation_rows import fetched_at
from spark_jobs.lookup.relation.relation_spec import RelationSpec

_SAMPLED = 20  # tuples of R: the stream may have no value for the key of the first


@dataclass(frozen=True)
class OwnedPages:
    """R's pages, and the contiguous range of them that each partition of the exchange owns."""

    index: PageIndex
    ranges: PageRanges

    def range_around(self, pages: np.ndarray) -> range:
        """The pages that a partition owns whose tuples fall on these, int64 (n,); all pages where there are none."""
        if not pages.size:
            return range(self.index.page_count)
        first, last = self.ranges.owner_of(np.array([pages.min(), pages.max()])).tolist()
        return range(int(self.ranges.boundaries[first]), int(self.ranges.boundaries[last + 1]))


@dataclass(frozen=True)
class CopyPlan:
    """The local copy of R that one lookup reads in one batch.

    Attributes:
        manifest: the published CopyManifest.
        changed: the published ChangedKeys of R since it was taken; None: no change has been noted.
    """

    manifest: MappedBroadcast
    changed: MappedBroadcast | None


@dataclass(frozen=True)
class LookupPlan:
    """One lookup as its tasks carry it out.

    Attributes:
        position: number of the lookup in the pipeline, from 0.
        spec: the relation, its key and fetched columns.
        algorithm: `auto`, or the back stage's name.
        front: whether a front stage stands before it.
        on_unmatched: `hold`, `reject`, or `default`: what becomes of a tuple whose key is not in R.
        defaults: the value of each fetched column, for `default`; else empty.
        back_stage_bytes: memory of one task's back stage.
        pages: the broadcast OwnedPages of R; None where R can't be read by pages.
        costs: measured costs of reading R, for `auto`.
        read_limit: tuples of R that all tasks together may read in a second; None: as many as they can.
        copy: the local copy that R is read from; None: it is read live.
        reading: how much of R is hot; and of a lookup that may read a copy, which one it reads, or why it does not.
    """

    position: int
    spec: RelationSpec
    algorithm: str
    front: bool
    on_unmatched: Literal["hold", "reject", "default"]
    defaults: dict[str, pa.Scalar]
    back_stage_bytes: int
    pages: MappedBroadcast | None
    costs: AccessCosts | None
    read_limit: float | None = None
    copy: CopyPlan | None = None
    reading: str | None = None

    @property
    def bit(self) -> int:
        """This lookup's bit in a tuple's set of lookups still to do."""
        return 1 << self.position

    @property
    def back_stages(self) -> list[str]:
        """The algorithms that its back stage may come to."""
        return back_stages(self.algorithm, self.pages is not None)

    def fetched(
        self, found: pa.Table, indices: NDArray[np.int64], times: pa.ChunkedArray
    ) -> tuple[pa.Table, NDArray[np.bool_]]:
        """The columns of R for n stream tuples, null where none was found; and where no version was valid.

        Args:
            found: what tuples of R hold besides their keys.
            indices: int64, shape (n,), the row of them that each stream tuple has found; negative: none.
            times: event time of each, shape (n,); matters only where R keeps versions.
        """
        if self.spec.validity is not None:
            columns, valid = fetched_at(found, indices, single_array(times))
            return columns, (indices >= 0) & ~valid
        rows = pa.array(indices) if indices.size and indices.min() >= 0 else pa.array(indices, mask=indices < 0)
        return found.take(rows), np.zeros(len(indices), np.bool_)

    def page_by_page(self) -> LookupPlan:
        """The plan without its limit, and such that a task owns no page of R but the one that its tuples wait for."""
        pages = None if self.pages is None else _PageByPage(self.pages.name, self.pages.version, self.pages.content)
        return replace(self, pages=pages, read_limit=None)

    def some_key(self, stream: pa.Schema, url: str) -> dict[str, pa.Scalar]:
        """The key of any tuple of R as values of the stream; nothing where R has none that the stream can have.

        Args:
            stream: the types of the stream's columns.
            url: where R is.
        """
        query = sample_query(self.spec, _SAMPLED)
        content = reading_connection(url).run(lambda connection: copy_out(connection, query))
        read = decode_copy(content, list(self.spec.read_types))
        keys = pa.table(
            {
                column.stream: column.kind.in_stream(values, stream.field(column.stream).type)
                for column, values in zip(self.spec.key, read, strict=False)
            }
        ).drop_null()
        return {name: keys[name][0] for name in keys.column_names} if keys.num_rows else {}


class _PageByPage(MappedBroadcast):
    """R's pages, each of them owned by a task of its own."""

    def value(self) -> OwnedPages:
        owned: OwnedPages = super().value()
        return OwnedPages(owned.index, PageRanges.balanced(owned.index.page_count, owned.index.page_count))
