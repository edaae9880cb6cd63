"""Whether a reprocessing run or a validation that has not been closed is still at work, or was cut off.

Each holds an advisory lock of the warehouse while it lives. PostgreSQL releases it with the session, however the
process ends, so any client can see whether one is at work.
"""

from __future__ import annotations

from datetime import timedelta

from psycopg2 import extensions

MAX_SILENCE = timedelta(seconds=60)
"""A run whose heartbeat is older counts as dead, though its session may be open: it hangs, or its host is gone."""

# Five heartbeats: the session that holds a run's lock may have to be opened anew.
_SILENCE_WITHOUT_LOCK = timedelta(seconds=10)

RUN, VALIDATION = "freshet.reprocessing_run", "freshet.validation"


def _is_locked(work: str, name: str) -> str:
    """SQL condition: a session holds the lock. `name` is an SQL expression."""
    return (
        "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        f"AND classid = hashtext('{work}')::oid AND objid = hashtext({name}::text)::oid)"
    )


# There are no heartbeats while the server is away, and locks end with it: silence counts from its start.
RUN_LIVES = (
    "(greatest(heartbeat_at, pg_postmaster_start_time()) "
    f"> clock_timestamp() - interval '{_SILENCE_WITHOUT_LOCK.seconds} s' "
    f"OR heartbeat_at > clock_timestamp() - interval '{MAX_SILENCE.seconds} s' AND {_is_locked(RUN, 'batch_no')})"
)
"""SQL condition on a row of freshet.reprocessing_run that is running: its driver lives."""

RUN_STATE = f"CASE WHEN state = 'running' AND NOT {RUN_LIVES} THEN 'abandoned' ELSE state END"
"""SQL expression on a row of freshet.reprocessing_run: its state, also if its driver died without noting it."""

DRIVER_DIED = "its driver has died or hangs"
"""Why such a run is abandoned."""

VALIDATION_RESULT = (
    f"CASE WHEN result = 'running' AND NOT {_is_locked(VALIDATION, 'pipeline')} THEN 'cut off' ELSE result END"
)
"""SQL expression on a row of freshet.validation: its result, also if its process died without noting it."""


def try_lock(cursor: extensions.cursor, work: str, name: object) -> bool:
    """Take the lock of a piece of work for this session; false if a session has it, be it this one."""
    cursor.execute(
        f"SELECT pg_try_advisory_lock(hashtext(%s), hashtext(%s)) WHERE NOT {_is_locked(work, '%s')}",
        [work, str(name), str(name)],
    )
    return cursor.fetchone() == (True,)


def wait_for_lock(cursor: extensions.cursor, work: str, name: object) -> None:
    """Take it as soon as no other session has it."""
    cursor.execute("SELECT pg_advisory_lock(hashtext(%s), hashtext(%s))", [work, str(name)])


def unlock(cursor: extensions.cursor, work: str, name: object) -> None:
    """Give it back."""
    cursor.execute("SELECT pg_advisory_unlock(hashtext(%s), hashtext(%s))", [work, str(name)])
