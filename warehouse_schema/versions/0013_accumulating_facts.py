"""Accumulating facts: parts that wait for their row, and what a transaction did with the parts of each stream.

Revision ID: 0013
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_PLACES = ("shed", "unmatched", "rejected")


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.held_tuple ADD COLUMN correlation_key text COLLATE "C";
        COMMENT ON COLUMN freshet.held_tuple.correlation_key IS
            'Of a part of an accumulating fact: the key of its row, as a JSON array. Unmatched without a relation, it '
            'waits for that row. Null for other tuples, and where there is no such key.';
        CREATE INDEX held_tuple_awaiting_row ON freshet.held_tuple (pipeline, correlation_key)
            WHERE correlation_key IS NOT NULL AND place = 'unmatched' AND relation IS NULL;

        ALTER TABLE freshet.batch_part ADD COLUMN stream text, ADD COLUMN joined bigint;
        COMMENT ON COLUMN freshet.batch_part.stream IS
            'Of an accumulating fact: whose parts are counted. A transaction has a row for each stream.';
        COMMENT ON COLUMN freshet.batch_part.joined IS
            'Parts that came into a fact; facts are the rows that they made. Parts that had waited until then are '
            'taken off from unmatched.';
    """)
    for place in _PLACES:
        op.execute(
            f"CREATE OR REPLACE VIEW freshet.{place} AS SELECT * FROM freshet.held_tuple WHERE place = '{place}'"
        )


def downgrade() -> None:
    # The views name their columns: they are made anew, without the one that goes.
    columns = """
        pipeline, event_id, event_hash, place, reason, relation, payload, payload_encoding, event_time, arrived_at,
        held_at, batch_no, attempts, tried_at, tried_xmin, retry_at, source_unit, source_position
    """
    for place in _PLACES:
        op.execute(f"DROP VIEW freshet.{place}")
        op.execute(f"CREATE VIEW freshet.{place} AS SELECT {columns} FROM freshet.held_tuple WHERE place = '{place}'")
    op.execute("""
        ALTER TABLE freshet.batch_part DROP COLUMN joined, DROP COLUMN stream;
        ALTER TABLE freshet.held_tuple DROP COLUMN correlation_key;
    """)
