"""Sketches of event ids in the ledger: what has to be stored under the number of each batch and reprocessing run.

A batch owes what its transactions have stored, and what was read and got to none of them. So it owes all that it read,
once, but for what was stored before: `dropped`, which is looked up one by one. What a run makes facts of it owes from
then on, and no more the batch that held it. Rows of one number are added up, and so are those of any numbers.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.sketches.id_sketch import IdSketch

MOST_DROPPED = 1_000
"""Dropped ids that are kept of a batch."""
PRUNED = 0
"""Stands for the number of all loads that the ledger no longer has."""
# Of loads that the ledger no longer has. Of which it is not known what arrived is known for ever.
_OLD = """
    DELETE FROM freshet.id_sketch WHERE sketch_id = ANY (ARRAY (
        SELECT sketch_id FROM freshet.id_sketch AS old WHERE pipeline = %(pipeline)s AND batch_no <> 0
            AND NOT EXISTS (SELECT FROM freshet.batch WHERE batch.batch_no = old.batch_no)
            AND NOT EXISTS (SELECT FROM freshet.reprocessing_run AS run WHERE run.batch_no = old.batch_no)
            AND NOT EXISTS (SELECT FROM freshet.id_sketch AS unknown WHERE unknown.pipeline = old.pipeline
                AND unknown.batch_no = old.batch_no AND unknown.sketch IS NULL)
        LIMIT %(most)s))
    RETURNING sketch
"""


def total(packed: Iterable[bytes | memoryview]) -> IdSketch:
    """The sum of sketches. Some 10 us each."""
    summed = IdSketch()
    for sketch in packed:
        summed += IdSketch.from_bytes(bytes(sketch))
    return summed


def close(
    cursor: extensions.cursor,
    pipeline: str,
    batch_no: int,
    parts: Sequence[tuple[memoryview | None, Sequence[str]]],
    unsettled: IdSketch | None,
    deleted: IdSketch,
    told: Sequence[str],
) -> None:
    """Write down what a batch owes; in the transaction that closes it.

    Args:
        cursor: in that transaction.
        pipeline: its name.
        batch_no: the batch.
        parts: the sketch of each of its parts, None where it has none, and some of the event ids that it dropped.
        unsettled: what was read of it and not loaded; None where nobody knows.
        deleted: what its parts had stored twice, as facts and held, and is not held any more.
        told: event ids of that.
    """
    sketches = [sketch for sketch, _ in parts if sketch is not None]
    packed = None
    if unsettled is not None and len(sketches) == len(parts):
        owed = total(sketches)
        owed += unsettled
        owed -= deleted
        packed = owed.to_bytes()
    dropped = sample({*told, *(event_id for _, names in parts for event_id in names)}, MOST_DROPPED)
    _write(cursor, pipeline, batch_no, packed, dropped)


def sample(event_ids: Iterable[str], most: int) -> list[str]:
    """Some of the event ids, at most as many: the same ones at every call, and otherwise chosen by chance."""
    return sorted(event_ids, key=lambda event_id: zlib.crc32(event_id.encode()))[:most]


def make_facts(
    cursor: extensions.cursor, pipeline: str, run_no: int, event_ids: Sequence[str], hashes: NDArray[np.int64]
) -> None:
    """Hold tuples no more that a reprocessing run has stored as facts, and have the run owe them.

    Args:
        cursor: in the transaction that stores them.
        pipeline: its name.
        run_no: number of the run.
        event_ids: of the held tuples.
        hashes: hash codes of the facts' event ids, int64, shape (n,).
    """
    cursor.execute(
        "DELETE FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s) RETURNING batch_no, event_hash",
        [pipeline, event_ids],
    )
    by_batch: dict[int, list[int]] = defaultdict(list)
    for batch_no, code in cursor.fetchall():
        by_batch[batch_no].append(code)
    for batch_no, codes in by_batch.items():
        held = IdSketch()
        held.remove(np.array(codes, np.int64))
        _write(cursor, pipeline, batch_no, held.to_bytes())
    if len(hashes):
        _write(cursor, pipeline, run_no, IdSketch(hashes).to_bytes())


def prune(connection: extensions.connection, pipeline: str, most: int) -> None:
    """Add up what loads owe that the ledger no longer has; what they dropped is forgotten.

    Args:
        connection: this is a few transactions on it.
        pipeline: its name.
        most: rows that one of them takes.
    """
    while True:
        with connection, connection.cursor() as cursor:
            cursor.execute(_OLD, {"pipeline": pipeline, "most": most})
            old = [sketch for (sketch,) in cursor.fetchall()]
            if old:
                _write(cursor, pipeline, PRUNED, total(old).to_bytes())
        if len(old) < most:
            return


def _write(
    cursor: extensions.cursor, pipeline: str, batch_no: int, packed: bytes | None, dropped: Sequence[str] = ()
) -> None:
    cursor.execute(
        "INSERT INTO freshet.id_sketch (pipeline, batch_no, sketch, dropped) SELECT name, %(batch_no)s, %(packed)s, "
        "%(dropped)s FROM freshet.pipeline WHERE name = %(pipeline)s AND %(batch_no)s NOT BETWEEN 1 AND sketched_after",
        {"pipeline": pipeline, "batch_no": batch_no, "packed": packed, "dropped": list(dropped)},
    )
