"""How a lookup's memory is divided: the front stage's part, the back stages', and a page's of that."""

from __future__ import annotations

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.definition import Lookup
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, hot_tuples_within
from spark_jobs.lookup.relation.page_cutting import DEFAULT_PAGE_ROWS
from spark_jobs.lookup.relation.read_limit import tuples_at_once
from spark_jobs.lookup.relation.relation_spec import RelationSpec

# The front stage's part of a lookup's memory. The paper's best is 15 % (003, section 5.4), with whole tuples
# of R in it, and a queue that keeps the stream's misses for long. Here it holds keys and fetched columns
# alone, and the back stage is empty at the end of each batch: what more memory brings is more hits. The driver's own
# copy, and the 20 bytes a tuple that it learns with, come on top.
FRONT_STAGE_SHARE = 0.8

# A page takes at most this part of a back stage's memory: a larger page leaves too little for the queue.
LARGEST_PAGE_SHARE = 0.5
SMALLEST_PAGE_ROWS = 50

# A scan keeps PostgreSQL from removing dead rows. Where a limit makes it longer than this, R is not scanned.
LONGEST_SCAN_SECONDS = 60.0

CACHED = "cached_"


def front_stage_bytes(lookup: Lookup) -> int:
    """Memory of a lookup's hot tuples, in bytes; the workers of a host share it. 0 where there is no front stage."""
    has_front = lookup.algorithm == "auto" or lookup.algorithm.startswith(CACHED)
    return int(lookup.memory * FRONT_STAGE_SHARE) if has_front else 0


def back_stage_bytes(lookup: Lookup) -> int:
    """Memory of a lookup's back stages, of all tasks together, in bytes."""
    return lookup.memory - front_stage_bytes(lookup)


def page_rows_within(spec: RelationSpec, memory: int) -> int:
    """Tuples of a page of R that fits a back stage's memory, in bytes."""
    fitting = int(memory * LARGEST_PAGE_SHARE) // (2 * max(spec.tuple_bytes, 1))
    return max(min(DEFAULT_PAGE_ROWS, fitting), SMALLEST_PAGE_ROWS)


def page_rows_allowed(page_rows: int, task_limit: float | None) -> int:
    """Tuples of a page that may be read at once, `page_rows` at most.

    Args:
        page_rows: as many as fit.
        task_limit: tuples of R that one task may read in a second; None: any number.
    """
    return page_rows if task_limit is None else max(min(page_rows, tuples_at_once(task_limit)), SMALLEST_PAGE_ROWS)


def scan_refusal(lookup: Lookup, row_count: int) -> str | None:
    """Why R is not read whole, so that all of it would be hot, however much memory there is; None: it is.

    Args:
        lookup: the lookup.
        row_count: about how many tuples R has.
    """
    if lookup.read == "snapshot":
        return "with `read: snapshot` PostgreSQL is spared the scan that this takes"
    if lookup.read_limit is not None and row_count > lookup.read_limit * LONGEST_SCAN_SECONDS:
        return f"with its `read_limit` the scan that this takes would last longer than {LONGEST_SCAN_SECONDS:.0f} s"
    return None


def said_of_memory(lookup: Lookup, spec: RelationSpec, *, unnoted: str | None, holds_all: bool = False) -> str | None:
    """How much of R is hot, or what it takes to have all of it hot; None for a lookup without a front stage.

    Args:
        lookup: the lookup.
        spec: R.
        unnoted: why triggers do not note all changes of R; None where they do.
        holds_all: whether all of R is hot already.
    """
    front_bytes = front_stage_bytes(lookup)
    if not front_bytes:
        return None
    whole = HotTuples.bytes_for(spec.row_count, spec)
    if holds_all:
        return f"all of R is hot, in {format_bytes(whole)}: only what changes is read of it"
    refusal = scan_refusal(lookup, spec.row_count)
    needed = f"all of R, {spec.row_count:,} tuples, takes `memory: {format_bytes(whole / FRONT_STAGE_SHARE)}`"
    if whole <= front_bytes and refusal is not None:
        return f"{needed}, which it has, but only what is frequent is hot: {refusal}"
    if whole <= front_bytes and unnoted is not None:
        return f"{needed}, which it has, but only what is frequent is hot until triggers note all changes: {unnoted}"
    if whole <= front_bytes:
        return f"{needed}, which it has"
    share = hot_tuples_within(front_bytes, spec) / spec.row_count
    return f"{needed}; {format_bytes(lookup.memory)} hold the most frequent {share:.1%}, and all others have to be read"
