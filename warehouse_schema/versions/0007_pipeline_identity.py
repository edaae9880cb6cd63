"""What a pipeline and an event are known by: types of event ids, whether a pipeline is used, ids of what was pruned.

Revision ID: 0007
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from alembic import op
from psycopg2 import extensions

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 10_000
# What was pruned and sent again, when loaders did not know it, is held a second time: it has arrived once.
_SETTLE_DOUBLES = """
    WITH again AS (
        DELETE FROM freshet.pruned_tuple AS pruned USING freshet.held_tuple AS held
        WHERE held.pipeline = pruned.pipeline AND held.event_id = pruned.event_id
        RETURNING pruned.pipeline, pruned.place
    )
    INSERT INTO freshet.ledger_pruned AS kept (pipeline, shed, unmatched, rejected, duplicates)
    SELECT pipeline, -count(*) FILTER (WHERE place = 'shed'), -count(*) FILTER (WHERE place = 'unmatched'),
        -count(*) FILTER (WHERE place = 'rejected'), count(*)
    FROM again GROUP BY pipeline
    ON CONFLICT (pipeline) DO UPDATE SET
        shed = kept.shed + excluded.shed, unmatched = kept.unmatched + excluded.unmatched,
        rejected = kept.rejected + excluded.rejected, duplicates = kept.duplicates + excluded.duplicates
"""


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pipeline ADD COLUMN event_id text[], ADD COLUMN retired_at timestamptz;
        COMMENT ON COLUMN freshet.pipeline.event_id IS
            'Name and type of each column of the event id, which decide the text of held ids; null: registered before '
            'there was this.';
        COMMENT ON COLUMN freshet.pipeline.retired_at IS
            'Since when the pipeline is no longer used, so that another one may have its fact table; null: it is.';

        ALTER TABLE freshet.pruned_tuple ADD COLUMN event_hash bigint, ADD COLUMN batch_no bigint;
        COMMENT ON TABLE freshet.pruned_tuple IS
            'Held tuples that retention has deleted: that they arrived is kept, and sent again they are duplicates.';
        COMMENT ON COLUMN freshet.pruned_tuple.event_hash IS
            'As the held tuple had it: fills the filter through which loaders look for what arrived earlier.';
        COMMENT ON COLUMN freshet.pruned_tuple.batch_no IS
            'As the held tuple had it; 0: pruned before there was this, so held by a batch before all later ones.';
    """)
    op.execute(_SETTLE_DOUBLES)
    _fill_in(cast("extensions.cursor", op.get_bind().connection.cursor()))
    op.execute("""
        ALTER TABLE freshet.pruned_tuple ALTER COLUMN event_hash SET NOT NULL, ALTER COLUMN batch_no SET NOT NULL;
        CREATE INDEX pruned_tuple_batch ON freshet.pruned_tuple (pipeline, batch_no);
    """)


def _fill_in(cursor: extensions.cursor) -> None:
    """Give the rows that there are what loaders know an event by, some at a time: there may be millions."""
    cursor.execute(
        "SELECT pipeline, definition FROM (SELECT DISTINCT pipeline FROM freshet.pruned_tuple) AS pruned "
        "LEFT JOIN freshet.pipeline ON pipeline.name = pruned.pipeline"
    )
    for pipeline, definition in cursor.fetchall():
        behind = ""
        while True:
            cursor.execute(
                "SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %s AND event_id > %s "
                "ORDER BY event_id LIMIT %s",
                [pipeline, behind, _ROWS_AT_ONCE],
            )
            event_ids = [event_id for (event_id,) in cursor.fetchall()]
            if not event_ids:
                break
            cursor.execute(
                "UPDATE freshet.pruned_tuple AS pruned SET event_hash = filled.event_hash, batch_no = 0 "
                "FROM unnest(%s::text[], %s::bigint[]) AS filled (event_id, event_hash) "
                "WHERE pipeline = %s AND pruned.event_id = filled.event_id",
                [event_ids, _hashes(event_ids, definition or {}), pipeline],
            )
            behind = event_ids[-1]


def _hashes(event_ids: Sequence[str], definition: Mapping[str, Any]) -> list[int]:
    """The hash codes that held tuples with these ids have; 0 for ids that no event of this definition can have."""
    # Only where something was pruned: these take seconds to import.
    from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
    from spark_jobs.definition.ddl import parse_ddl
    from spark_jobs.loading.payload import digest_hashes
    from spark_jobs.warehouse.event_id import event_hashes, parse_event_ids
    from spark_jobs.warehouse.fact_table import FactColumn

    codes = dict.fromkeys(event_ids, 0)
    digests = [event_id for event_id in event_ids if event_id.startswith("{")]
    found = digest_hashes([event_id.removeprefix('{"sha256":"') for event_id in digests])
    codes.update(zip(digests, found.tolist(), strict=True))
    source = definition.get("source")
    texts = [event_id for event_id in event_ids if event_id.startswith("[")]
    if source and texts:
        types = parse_ddl(source["schema"])
        # The stream's types decide the code; a uuid's canonical text has the code of the uuid.
        text = PostgresType("text", "text")
        key = [FactColumn(name, name, types[name], text, nullable=False) for name in source["event_id"]]
        tuples, numbers = parse_event_ids(texts, key)
        hashes = event_hashes(tuples, key).tolist()
        codes.update((texts[number], code) for number, code in zip(numbers, hashes, strict=True))
    return list(codes.values())


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pruned_tuple DROP COLUMN event_hash, DROP COLUMN batch_no; -- its index too
        ALTER TABLE freshet.pipeline DROP COLUMN event_id, DROP COLUMN retired_at;
    """)
