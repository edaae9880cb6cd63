"""The ledger's sums, and what they should add up to."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg2 import extensions

from spark_jobs.proof.proof import Findings

# What a run over held tuples has changed, and what retention has summed up, are sums like those of batches. An open
# batch counts by its parts.
_SUMS = """
    SELECT coalesce(sum(facts), 0), coalesce(sum(shed), 0), coalesce(sum(unmatched), 0), coalesce(sum(rejected), 0)
    FROM (
        SELECT facts, shed, unmatched, rejected FROM freshet.batch
        WHERE pipeline = %(pipeline)s AND state <> 'started'
        UNION ALL
        SELECT part.facts, part.shed, part.unmatched, part.rejected
        FROM freshet.batch_part AS part JOIN freshet.batch USING (batch_no)
        WHERE batch.pipeline = %(pipeline)s AND batch.state = 'started'
        UNION ALL
        SELECT facts, shed, unmatched, rejected FROM freshet.reprocessing_run WHERE pipeline = %(pipeline)s
        UNION ALL
        SELECT facts, shed, unmatched, rejected FROM freshet.ledger_pruned WHERE pipeline = %(pipeline)s
    ) AS counted
"""


def check_sums(cursor: extensions.cursor, pipeline: str, stored: Mapping[str, int], findings: Findings) -> None:
    """Report the sums of the ledger that are not what is stored.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
        stored: tuples of each place, in the ledger's order, with those that retention has deleted.
        findings: takes what is found.
    """
    cursor.execute(_SUMS, {"pipeline": pipeline})
    row = cursor.fetchone()
    assert row is not None
    for (name, count), booked in zip(stored.items(), row, strict=True):
        if int(booked) != count:
            findings.add("ledger", f"{name}: the ledger says {int(booked):,}, stored are {count:,}")


# A batch that is older than the counts of records has none. Of several streams, what is stored are their results: the
# ledger says how many events have found a place, those that wait in the state among them. Of a range that was given up,
# or set aside, the records that a former try had stored were not counted: more may be settled than have arrived.
_UNBALANCED = """
    SELECT batch_no, arrived, settled
    FROM freshet.batch, LATERAL (
        SELECT coalesce(placed, facts + shed + unmatched + rejected) + duplicates AS settled) AS found
    WHERE pipeline = %s AND state = 'committed' AND arrived <> settled
        AND NOT EXISTS (
            SELECT FROM freshet.source_range AS range WHERE range.batch_no = batch.batch_no
                AND (range.state = 'lost'
                    OR (range.reason IS NOT NULL AND (range.records IS NULL OR arrived < settled))))
    ORDER BY batch_no
"""


def check_batches(cursor: extensions.cursor, pipeline: str, findings: Findings) -> None:
    """Report the batches of which more or fewer records arrived than found a place or are duplicates.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
        findings: takes what is found.
    """
    cursor.execute(_UNBALANCED, [pipeline])
    for batch_no, arrived, settled in cursor:
        text = f"batch {batch_no}: {arrived:,} arrived, {settled:,} found a place or are duplicates"
        findings.add("balance", text)
