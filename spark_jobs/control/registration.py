"""Registers pipelines, and retires them: what one is known by, its fact table and its event id, and when it may not.

A fact table belongs to one pipeline: two would take each other's events for duplicates of their own, and drop them.
Held tuples are found by the text of their event id, which its columns' types decide: under other types the same event
would be stored once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg2 import extensions

from spark_jobs.control.driver_records import MAX_SILENCE, newest_driver
from spark_jobs.control.drivers import fence_driver
from spark_jobs.control.fencing import PATIENCE
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import StreamType, parse_columns
from spark_jobs.definition.kinds import KINDS
from spark_jobs.errors import PipelineDefinitionError

# Types in which a value, if they hold it, has the same text in an event id.
_INTEGERS = re.compile("tinyint|smallint|int|bigint")
_PRECISION = re.compile(r"decimal\(\d+,")

_UUID_COLUMNS = """
    SELECT attname FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname || '.' || relname = %s AND atttypid = 'uuid'::regtype AND NOT attisdropped
"""
# Tables that may have rows in common: rows of a partition, or of a table that inherits, are rows of what is above it.
_CLAIMED = """
    WITH RECURSIVE named AS (
        SELECT pg_class.oid, nspname || '.' || relname AS name
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    ), claimed AS (
        SELECT pipeline.name AS pipeline, definition -> 'fact' ->> 'table' AS fact_table, named.oid
        FROM freshet.pipeline LEFT JOIN named ON named.name = definition -> 'fact' ->> 'table'
        WHERE pipeline.name <> %(pipeline)s AND retired_at IS NULL
        UNION
        SELECT pipeline, fact_table, inhrelid FROM claimed JOIN pg_inherits ON inhparent = claimed.oid
    ), wanted AS (
        SELECT oid FROM named WHERE name = %(table)s
        UNION
        SELECT inhrelid FROM wanted JOIN pg_inherits ON inhparent = wanted.oid
    )
    SELECT pipeline, fact_table FROM claimed
    WHERE fact_table = %(table)s OR oid IN (SELECT oid FROM wanted) ORDER BY pipeline LIMIT 1
"""
# A driver that is blocked before it has a Spark session has loaded nothing, and registers anew before it does.
_LOADING = """
    SELECT FROM freshet.driver WHERE pipeline = %s AND state = 'running' AND heartbeat_at > clock_timestamp() - %s
        AND spark_application_id IS NOT NULL
"""
_HELD = """
    SELECT count(*), place FROM freshet.held_tuple
    WHERE pipeline = %s AND starts_with(event_id, '[') GROUP BY place ORDER BY place
"""


@dataclass(frozen=True)
class Identity:
    """What a pipeline is known by.

    Attributes:
        fact_table: schema.table; None where a definition says nothing of it.
        event_id: name and type of each column, such as `visit_id bigint`, in the order of the event id. The type is
            the stream's, but `uuid` where the fact's column is one, since that decides the text of the id.
    """

    fact_table: str | None
    event_id: tuple[str, ...]

    @classmethod
    def of(cls, cursor: extensions.cursor, definition: Mapping[str, Any]) -> Identity:
        """That of a definition as JSON has it; of the fact table's columns the catalog is asked."""
        fact = definition.get("fact")
        if not fact or not (definition.get("source") or definition.get("streams")):
            return cls(None, ())
        types, event_id = _tuples(definition)
        cursor.execute(_UUID_COLUMNS, [fact["table"]])
        uuids = {fact["columns"].get(column) for (column,) in cursor}
        return cls(fact["table"], tuple(f"{part} {'uuid' if part in uuids else types[part]}" for part in event_id))

    def equals(self, other: Identity) -> bool:
        """Whether facts go into the same table, and events have the same ids."""
        return self.fact_table == other.fact_table and self.has_ids_of(other)

    def has_ids_of(self, other: Identity) -> bool:
        """Whether events have the same ids: texts, and columns of payloads, which held ids are read back from."""
        return list(map(_form, self.event_id)) == list(map(_form, other.event_id))

    def __str__(self) -> str:
        return f"{self.fact_table}, event id {_listed(self)}"


def _tuples(definition: Mapping[str, Any]) -> tuple[Mapping[str, StreamType], Sequence[str]]:
    """Types of the columns of the tuples that become facts, and which of them tell these apart."""
    source = definition.get("source")
    if source:  # Of several streams, the last version wrote here what follows from them.
        added = {name: each for kind in KINDS.values() for name, each in kind.columns.items()}
        return {**parse_columns(source["schema"]), **added}, source["event_id"]
    tuples = PipelineDefinition.model_validate(definition).tuples
    return tuples.columns, tuples.event_id


def check_registration(cursor: extensions.cursor, pipeline: str, definition: Mapping[str, Any]) -> Identity:
    """Check that a pipeline may be registered with this definition.

    Args:
        cursor: in a transaction that has locked out others that register.
        pipeline: its name.
        definition: as JSON has it.

    Returns:
        what it is to be known by.

    Raises:
        PipelineDefinitionError: another pipeline has the fact table; tuples are held under ids of other types; or a
            driver still loads what the pipeline has been known by.
    """
    identity = Identity.of(cursor, definition)
    _check_fact_table(cursor, pipeline, identity)
    known = _known(cursor, pipeline)
    if known is None or known.equals(identity):
        return identity
    cursor.execute(_LOADING, [pipeline, MAX_SILENCE])
    if cursor.rowcount:
        raise PipelineDefinitionError(
            f"Pipeline {pipeline} has a driver that loads {known}. Its file now says {identity}. "
            f"Drain the driver first, then start the pipeline again: in Airflow with the action restart."
        )
    if not known.has_ids_of(identity):
        _check_held_ids(cursor, pipeline, known, identity)
    return identity


def check_registered(cursor: extensions.cursor, pipeline: str, definition: Mapping[str, Any]) -> bool:
    """Whether a pipeline is registered; if so, that a job beside its stream may do what this definition says.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        definition: as JSON has it.

    Raises:
        PipelineDefinitionError: another pipeline has the fact table, the pipeline was retired, or its stream was
            started with another fact table or event id.
    """
    identity = Identity.of(cursor, definition)
    _check_fact_table(cursor, pipeline, identity)
    if not lock_in_use(cursor, pipeline):
        return False
    known = _known(cursor, pipeline)
    if known is not None and not known.equals(identity):
        raise PipelineDefinitionError(
            f"The stream of pipeline {pipeline} was started with {known}. Its file now says {identity}. "
            f"Start the stream, which takes the change over or says what is in the way; or take the change back."
        )
    return True


def lock_in_use(cursor: extensions.cursor, pipeline: str) -> bool:
    """Whether a pipeline is registered; if so, it can't be retired until the transaction has ended.

    Raises:
        PipelineDefinitionError: it was retired.
    """
    # FOR KEY SHARE would give the row as it was before a transaction that retires it has committed.
    cursor.execute("SELECT retired_at FROM freshet.pipeline WHERE name = %s FOR SHARE", [pipeline])
    row = cursor.fetchone()
    if row is not None and row[0] is not None:
        raise PipelineDefinitionError(f"Pipeline {pipeline} was retired. Start its stream, and it is one again.")
    return row is not None


def _known(cursor: extensions.cursor, pipeline: str) -> Identity | None:
    """What a pipeline was registered by; None if it is not, or its definition did not say."""
    cursor.execute("SELECT definition, event_id FROM freshet.pipeline WHERE name = %s", [pipeline])
    row = cursor.fetchone()
    if row is None:
        return None
    definition, event_id = row
    known = Identity.of(cursor, definition)
    if known.fact_table is None:
        return None
    # Of what was registered before event ids were kept, the definition tells as much as there is.
    return known if event_id is None else Identity(known.fact_table, tuple(event_id))


def _check_fact_table(cursor: extensions.cursor, pipeline: str, identity: Identity) -> None:
    if identity.fact_table is None:
        return
    cursor.execute(_CLAIMED, {"pipeline": pipeline, "table": identity.fact_table})
    row = cursor.fetchone()
    if row is None:
        return
    other, table = row
    shared = "" if table == identity.fact_table else f", which has rows in common with {table}"
    raise PipelineDefinitionError(
        f"Pipeline {pipeline} can't load {identity.fact_table}{shared}: that is the fact table of pipeline {other}, "
        f"and each would take the other's events for duplicates of its own. Give {pipeline} a table of its own. "
        f"If {other} is no longer used, or was the former name of {pipeline}, run `freshet retire {other}`."
    )


def _check_held_ids(cursor: extensions.cursor, pipeline: str, known: Identity, identity: Identity) -> None:
    cursor.execute(_HELD, [pipeline])
    if held := ", ".join(f"{count:,} {place}" for count, place in cursor):
        raise PipelineDefinitionError(
            f"The event id of pipeline {pipeline} was {_listed(known)} and is now {_listed(identity)}, but tuples are "
            f"held under ids as they were ({held}): sent again, the same events would be stored once more. Take the "
            f"change back until nothing is held (`freshet reprocess {pipeline} --all-unmatched`; rejected tuples get a "
            f"new try by `freshet requeue {pipeline}`, or go when `retention.rejected` is over), or load the new "
            f"events under a new pipeline name into a new fact table."
        )


def _form(part: str) -> str:
    """A column of an event id with what its type makes of the text."""
    name, _, kind = part.partition(" ")
    return f"{name} {_PRECISION.sub('decimal(,', 'integer' if _INTEGERS.fullmatch(kind) else kind)}"


def _listed(identity: Identity) -> str:
    return f"({', '.join(identity.event_id)})"


def register_pipeline(
    connection: extensions.connection, name: str, freshness_target: timedelta, definition_json: str
) -> None:
    """Make the pipeline known to the warehouse, or bring its definition up to date. Its epoch and state stay.

    Raises:
        PipelineDefinitionError: another pipeline has its fact table, or tuples are held under event ids of other
            types; the message says what to do.
    """
    with connection, connection.cursor() as cursor:
        # Of two that want one fact table the second sees what the first has registered.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('freshet.pipeline'))")
        identity = check_registration(cursor, name, json.loads(definition_json))
        cursor.execute(
            """
            INSERT INTO freshet.pipeline AS known (name, freshness_target, definition, event_id)
            VALUES (%s, %s, %s, %s)
            ON CONFLICT (name) DO UPDATE
                SET freshness_target = excluded.freshness_target, definition = excluded.definition,
                    event_id = excluded.event_id, retired_at = NULL
                WHERE (known.freshness_target, known.definition, known.event_id, known.retired_at)
                    IS DISTINCT FROM (excluded.freshness_target, excluded.definition, excluded.event_id, NULL)
            """,
            [name, freshness_target, definition_json, list(identity.event_id) or None],
        )


def retire_pipeline(connection: extensions.connection, name: str, *, patience: timedelta = PATIENCE) -> None:
    """Let other pipelines have the fact table of one that is no longer used. Started again, it is used again.

    What it has stored stays. A driver or a reprocessing run of it that was taken for dead can't write any more.

    Raises:
        PipelineDefinitionError: the pipeline is not registered, or its driver lives.
    """
    driver = newest_driver(connection, name)
    if driver is not None and driver.is_alive():
        raise PipelineDefinitionError(
            f"Pipeline {name!r} is in use: its driver runs on {driver.host} as process {driver.process_id}. "
            f"Drain it first: in Airflow with the action drain of stream_load__{name}."
        )
    with connection, connection.cursor() as cursor:
        fence_driver(cursor, name, patience)
        cursor.execute(
            "UPDATE freshet.pipeline SET epoch = epoch + 1, retired_at = clock_timestamp(), desired_state = 'draining' "
            "WHERE name = %s",
            [name],
        )
        cursor.execute(
            "UPDATE freshet.reprocessing_run SET state = 'abandoned', closed_at = clock_timestamp(), "
            "error = 'its pipeline was retired' WHERE pipeline = %s AND state = 'running'",
            [name],
        )
