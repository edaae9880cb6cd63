"""What was done beside the streams since a moment: the backlog that is left, reprocessing runs, validations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg2 import extensions

from spark_jobs.warehouse.work_under_way import RUN_STATE, VALIDATION_RESULT


@dataclass(frozen=True)
class OperationsSince:
    """The operation of some pipelines since a moment.

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
        "SELECT count(*) FROM freshet.held_tuple WHERE place IN ('shed', 'unmatched') "
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
