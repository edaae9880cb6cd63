"""Batches of correlated streams: how far each stream had come, and where its events are.

Revision ID: 0012
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_COUNTS = ("arrived", "duplicates", "rejected", "late", "joined", "expired")


def upgrade() -> None:
    counts = ", ".join(f"{name} bigint NOT NULL DEFAULT 0" for name in _COUNTS)
    op.execute(f"""
        CREATE TABLE freshet.batch_stream (
            batch_no     bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
            stream       text COLLATE "C" NOT NULL,
            reached      timestamptz,
            newest       timestamptz,
            last_arrival timestamptz,
            idle         boolean NOT NULL DEFAULT false,
            {counts},
            waiting      bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (batch_no, stream)
        );
        COMMENT ON TABLE freshet.batch_stream IS
            'Where the events of each correlated stream are, batch by batch: of all batches together, '
            'arrived = joined + waiting after the last one + expired + rejected + late + duplicates.';
        COMMENT ON COLUMN freshet.batch_stream.reached IS
            'Noted when the batch opens: events that happened before are late for it; null: none is. The state lets '
            'go of what none of the other streams can meet any more.';
        COMMENT ON COLUMN freshet.batch_stream.newest IS
            'The largest event time so far, times in the future cut down to the clock and the lateness.';
        COMMENT ON COLUMN freshet.batch_stream.last_arrival IS 'When an event of the stream was read last.';
        COMMENT ON COLUMN freshet.batch_stream.idle IS 'Whether the stream was silent, and followed the others.';
        COMMENT ON COLUMN freshet.batch_stream.rejected IS 'Records that are none, or lack id, key or time.';
        COMMENT ON COLUMN freshet.batch_stream.joined IS 'Events whose first result was found.';
        COMMENT ON COLUMN freshet.batch_stream.waiting IS
            'Events in the state, after the batch, that are in no result yet.';

        CREATE TABLE freshet.stream_pruned (
            pipeline text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
            stream   text COLLATE "C" NOT NULL,
            {counts},
            PRIMARY KEY (pipeline, stream)
        );
        COMMENT ON TABLE freshet.stream_pruned IS
            'Sums of freshet.batch_stream over the batches that retention has deleted.';

        ALTER TABLE freshet.batch ADD COLUMN placed bigint;
        COMMENT ON COLUMN freshet.batch.placed IS
            'Of correlated streams: events that found a place, by what the batch says of each stream; those that wait '
            'in the state among them. Null where one stream is loaded: then facts and held tuples are these events.';
        ALTER TABLE freshet.ledger_pruned ADD COLUMN placed bigint NOT NULL DEFAULT 0;
        UPDATE freshet.ledger_pruned SET placed = facts + shed + unmatched + rejected;
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.ledger_pruned DROP COLUMN placed;
        ALTER TABLE freshet.batch DROP COLUMN placed;
        DROP TABLE freshet.stream_pruned;
        DROP TABLE freshet.batch_stream;
    """)
