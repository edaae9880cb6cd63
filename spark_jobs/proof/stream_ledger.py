"""Compares what the ledger says of each of several streams with what was found."""

from __future__ import annotations

from collections import Counter

from psycopg2 import extensions

from spark_jobs.definition.fates import DUPLICATE, EXPIRED, FATES, JOINED, REJECTED, WAITING, Share
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.proof.proof import Findings, StreamPlaces

# An open batch has counted nothing yet.
_ARRIVED = """
    SELECT coalesce(sum(arrived), 0)::bigint FROM (
        SELECT told.arrived FROM freshet.batch_stream AS told JOIN freshet.batch USING (batch_no)
        WHERE pipeline = %(pipeline)s AND stream = %(stream)s AND state = 'committed'
        UNION ALL
        SELECT arrived FROM freshet.stream_pruned WHERE pipeline = %(pipeline)s AND stream = %(stream)s
    ) AS counted
"""
_FATES = """
    WITH committed AS (
        SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'committed'
    )
    SELECT fate, sum(tuples)::bigint FROM (
        SELECT fate, tuples FROM freshet.batch_fate JOIN committed USING (batch_no)
        WHERE stream = %(stream)s AND (fate <> %(waiting)s OR batch_no = (SELECT max(batch_no) FROM committed))
        UNION ALL
        SELECT fate, tuples FROM freshet.fate_pruned WHERE pipeline = %(pipeline)s AND stream = %(stream)s
    ) AS counted GROUP BY fate
"""

# What was read of a file once more arrived as often, and is found once.
_READ_AGAIN = """
    SELECT coalesce(sum(records), 0)::bigint FROM freshet.source_range AS former
    WHERE pipeline = %(pipeline)s AND starts_with(unit, %(prefix)s) AND state = 'retried' AND reason IS NULL
        AND EXISTS (SELECT FROM freshet.source_range AS range WHERE range.pipeline = former.pipeline
            AND (range.unit, range.size, range.modified_ns) = (former.unit, former.size, former.modified_ns)
            AND range.state = 'loaded')
"""


def check_stream(cursor: extensions.cursor, pipeline: str, found: StreamPlaces, findings: Findings) -> None:
    """Report where the ledger's law of a stream does not hold, or its figures are not what was found.

    An event that lands again after the first has left the state is joined, expires or is late once more: it is counted
    by the ledger as that, and found once. So where events landed several times, the ledger may say more.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
        found: where the stream's events are.
        findings: takes what is found.
    """
    of_stream = {"pipeline": pipeline, "stream": found.stream, "waiting": WAITING.name}
    cursor.execute(_ARRIVED, of_stream)
    [(arrived,)] = cursor.fetchall()
    cursor.execute(_FATES, of_stream)
    shares = Counter[Share | None]()
    for fate, tuples in cursor.fetchall():
        shares[FATES[fate].share] += tuples
    joined, waiting, expired, rejected = (shares[fate.share] for fate in (JOINED, WAITING, EXPIRED, REJECTED))
    settled = joined + waiting + expired + rejected + shares[DUPLICATE.share]
    if arrived != settled:
        text = f"{arrived:,} arrived, {settled:,} are joined, waiting, expired, rejected or duplicates"
        findings.add("balance", f"{found.stream}: {text}")
    cursor.execute(_READ_AGAIN, {"pipeline": pipeline, "prefix": found.stream + STREAM_SEPARATOR})
    [(read_again,)] = cursor.fetchall()
    compared = {"arrived": (arrived, found.arrived + read_again), "waiting": (waiting, found.waiting)}
    at_least = {"joined": (joined, found.in_result)}
    if found.pruned:  # it is not known any more what they were
        held = found.expired + found.rejected + found.pruned
        at_least["expired or rejected"] = (expired + rejected, held)
    else:
        at_least |= {"expired": (expired, found.expired), REJECTED.name: (rejected, found.rejected)}
    for name, (booked, there) in (compared | at_least).items():
        if booked < there or (booked > there and not (name in at_least and found.duplicates + read_again)):
            findings.add("ledger", f"{found.stream}, {name}: the ledger says {booked:,}, found are {there:,}")
