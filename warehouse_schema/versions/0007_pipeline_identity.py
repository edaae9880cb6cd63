"""What a pipeline and an event are known by: types of event ids, whether a pipeline is used, ids of what was pruned.

Revision ID: 0007
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pipeline ADD COLUMN event_id text[], ADD COLUMN retired_at timestamptz;
        COMMENT ON COLUMN freshet.pipeline.event_id IS
            'Name and type of each column of the event id, which decide the text of held ids; null: registered before '
            'there was this.';
        COMMENT ON COLUMN freshet.pipeline.retired_at IS
            'Since when the pipeline is no longer used, so that another one may have its fact table; null: it is.';

        ALTER TABLE freshet.pruned_tuple ADD COLUMN event_hash bigint, ADD COLUMN batch_no bigint;
        CREATE INDEX pruned_tuple_batch ON freshet.pruned_tuple (pipeline, batch_no);
        COMMENT ON TABLE freshet.pruned_tuple IS
            'Held tuples that retention has deleted: that they arrived is kept, and sent again they are duplicates.';
        COMMENT ON COLUMN freshet.pruned_tuple.event_hash IS
            'As the held tuple had it, like batch_no; null: pruned before there was this.';
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pruned_tuple DROP COLUMN event_hash, DROP COLUMN batch_no; -- its index too
        ALTER TABLE freshet.pipeline DROP COLUMN event_id, DROP COLUMN retired_at;
    """)
