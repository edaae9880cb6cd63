"""Cuts R into pages, on the driver: what its key's index tells of it."""

from __future__ import annotations

import numpy as np
from psycopg2 import extensions

from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.catalog.sizes import estimated_null_share, estimated_row_count
from spark_jobs.lookup.relation.page_index import PageIndex
from spark_jobs.lookup.relation.queries import fence_query, tuples_beyond_query
from spark_jobs.lookup.relation.reading_connection import copy_out
from spark_jobs.lookup.relation.relation_spec import RelationSpec

# A page read costs 0.2 ms before the first tuple, then 0.2 microseconds a tuple where R lies in key order on disk, and
# 1.5 where it does not (two bigint columns of 2 million rows, in PostgreSQL's memory):
#
#   tuples of a page            500    1,000    2,000    4,000    8,000   32,000
#   in key order, ms           0.34     0.48     0.72     1.14     1.77     5.43
#   in another order, ms       1.03     1.65     2.88     6.53    17.0     54.1
#
# The matches of a page grow with its size, so that large pages are read at the best rate; but they take the stream
# tuples' memory, keep a batch from ending in time, and under skew are read for the sake of a few hot keys. At
# 2,000 tuples the fixed part is a third of the cost in key order, and gone in the noise in any other.
DEFAULT_PAGE_ROWS = 2_000


OUTGROWN = 2
"""Times its size that a page may grow to before the index is worth building anew."""


def cut_pages(connection: extensions.connection, spec: RelationSpec, page_rows: int = DEFAULT_PAGE_ROWS) -> PageIndex:
    """Read the fences in one index scan: 0.3 s for 10 million bigint keys.

    Args:
        connection: where R is.
        spec: R.
        page_rows: tuples of a page.

    Raises:
        SchemaMismatchError: no index of R gives its key in an order that pages can have.
    """
    if spec.page_refusal is not None:
        raise SchemaMismatchError(spec.page_refusal)
    content = copy_out(connection, fence_query(spec, page_rows))
    first_keys = KeyColumns.encode(decode_copy(content, [column.type for column in spec.key]), spec.key_kinds)
    return PageIndex(first_keys.take(np.arange(1, len(first_keys))), page_rows)


def outgrown(connection: extensions.connection, spec: RelationSpec, pages: PageIndex) -> bool:
    """Whether R has grown so that pages are over twice their size: the last one, where ascending keys arrive, or
    the average one. O(page_rows).
    """
    limit = spec.table_rows(OUTGROWN * pages.page_rows)
    if _estimated_rows_on_pages(connection, spec) > limit * pages.page_count:
        return True
    with connection.cursor() as cursor:
        cursor.execute(tuples_beyond_query(spec, pages.fences, pages.page_count - 1, limit + 1))
        [(count,)] = cursor.fetchall()
    return count > limit


def _estimated_rows_on_pages(connection: extensions.connection, spec: RelationSpec) -> float:
    """Rows of the table whose key has no nulls, about: others are on no page. 0 if unknown."""
    rows = estimated_row_count(connection, spec.schema, spec.table) or 0
    nullable = [column.name for column in spec.key if column.nullable]
    return rows * (1 - estimated_null_share(connection, spec.schema, spec.table, nullable)) if nullable else rows
