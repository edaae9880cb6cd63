"""What the ledger says of a period: batches, freshness, reads of R, and what was done beside the streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2 import extensions

from spark_jobs.control.work_under_way import RUN_STATE, VALIDATION_RESULT
from spark_jobs.definition.fates import SHED, WAITING_PLACES, listed
from spark_jobs.ledger.latency import percentile, total


@dataclass(frozen=True)
class RelationReads:
    """What the back stages of a lookup read.

    Attributes:
        relation: schema.table.
        tuples_read: tuples of R, and keys asked for.
        shed: stream tuples that were given up before their tuple of R was read.
    """

    relation: str
    tuples_read: int
    shed: int


@dataclass(frozen=True)
class LedgerPeriod:
    """The batches of a pipeline that were committed in a period.

    Attributes:
        seconds: how long it was.
        facts: tuples that became facts.
        shed: tuples that were put off.
        unmatched: tuples without a tuple of R.
        rejected: bad input.
        p50_seconds: freshness of the facts, event to commit: half of them; None without facts.
        p99_seconds: 99 of 100.
        reads: of each lookup, in the pipeline's order.
    """

    seconds: float
    facts: int
    shed: int
    unmatched: int
    rejected: int
    p50_seconds: float | None
    p99_seconds: float | None
    reads: tuple[RelationReads, ...]

    @property
    def arrived(self) -> int:
        """Tuples that were stored anywhere."""
        return self.facts + self.shed + self.unmatched + self.rejected


def read_period(cursor: extensions.cursor, pipeline: str, since: datetime, until: datetime) -> LedgerPeriod:
    """Sum up what was committed between two times of the warehouse's clock.

    Args:
        cursor: to the warehouse.
        pipeline: its name.
        since: not included.
        until: included.
    """
    cursor.execute(
        """
        SELECT facts, shed, unmatched, rejected, event_latency, statistics FROM freshet.batch
        WHERE pipeline = %s AND state = 'committed' AND closed_at > %s AND closed_at <= %s
        """,
        [pipeline, since, until],
    )
    batches = cursor.fetchall()
    facts, shed, unmatched, rejected = (sum(int(batch[k]) for batch in batches) for k in range(4))
    latencies = total(batch[4] for batch in batches)
    return LedgerPeriod(
        seconds=(until - since).total_seconds(),
        facts=facts,
        shed=shed,
        unmatched=unmatched,
        rejected=rejected,
        p50_seconds=percentile(latencies, 0.5),
        p99_seconds=percentile(latencies, 0.99),
        reads=_reads([batch[5] for batch in batches]),
    )


def warehouse_time(cursor: extensions.cursor) -> datetime:
    """The warehouse's clock, by which the ledger goes."""
    cursor.execute("SELECT clock_timestamp()")
    ((now,),) = cursor.fetchall()
    assert isinstance(now, datetime)
    return now


def _reads(statistics: list[dict[str, Any]]) -> tuple[RelationReads, ...]:
    by_batch = [each["lookups"] for each in statistics if each.get("lookups")]
    return tuple(
        RelationReads(
            lookup[0]["relation"],
            sum(each.get("relation_tuples_read", 0) for each in lookup),
            sum(each.get(SHED.name, 0) for each in lookup),
        )
        for lookup in zip(*by_batch, strict=True)
    )


@dataclass(frozen=True)
class OperationsSince:
    """What was done beside some pipelines' streams since a time.

    Attributes:
        backlog: tuples held since then that wait to be loaded: shed and unmatched ones.
        reprocessing_runs: runs by state.
        reprocessed: facts that they stored.
        validations: validations by result.
        failures: of each validation that failed, or could not be made, the pipeline and why.
    """

    backlog: int
    reprocessing_runs: dict[str, int]
    reprocessed: int
    validations: dict[str, int]
    failures: tuple[str, ...]


def operations_since(cursor: extensions.cursor, pipelines: Sequence[str], since: datetime) -> OperationsSince:
    """Read them from the warehouse.

    Args:
        cursor: to the warehouse.
        pipelines: names.
        since: by the warehouse's clock.
    """
    chosen = {"pipelines": list(pipelines), "since": since}
    cursor.execute(
        f"SELECT count(*) FROM freshet.held_tuple WHERE place IN ({listed(WAITING_PLACES)}) "
        "AND pipeline = ANY (%(pipelines)s) AND held_at >= %(since)s",
        chosen,
    )
    ((backlog,),) = cursor.fetchall()
    cursor.execute(
        f"SELECT {RUN_STATE} AS state_now, count(*), sum(facts) FROM freshet.reprocessing_run "
        "WHERE pipeline = ANY (%(pipelines)s) AND started_at >= %(since)s GROUP BY state_now",
        chosen,
    )
    runs = cursor.fetchall()
    cursor.execute(
        f"SELECT {VALIDATION_RESULT} AS result_now, count(*) FROM freshet.validation "
        "WHERE pipeline = ANY (%(pipelines)s) AND started_at >= %(since)s GROUP BY result_now",
        chosen,
    )
    validations = dict(cursor.fetchall())
    cursor.execute(
        """
        SELECT pipeline, coalesce(v.error, string_agg(r.message, '; ' ORDER BY r.number), 'no reason is known')
        FROM freshet.validation AS v LEFT JOIN freshet.validation_result AS r
            ON r.validation_id = v.validation_id AND NOT r.passed
        WHERE pipeline = ANY (%(pipelines)s) AND started_at >= %(since)s AND result IN ('failed', 'error')
        GROUP BY v.validation_id ORDER BY v.validation_id
        """,
        chosen,
    )
    return OperationsSince(
        backlog=backlog,
        reprocessing_runs={state: count for state, count, _ in runs},
        reprocessed=sum(int(facts) for _, _, facts in runs),
        validations=validations,
        failures=tuple(f"{pipeline}: {why}" for pipeline, why in cursor.fetchall()),
    )


def validated_since(cursor: extensions.cursor, since: datetime) -> set[str]:
    """The pipelines of which a validation that began since then has passed."""
    cursor.execute(
        "SELECT DISTINCT pipeline FROM freshet.validation WHERE started_at >= %s AND result = 'passed'", [since]
    )
    return {pipeline for (pipeline,) in cursor.fetchall()}
