"""What a pipeline is known by: the types of its event id, and whether it is still used.

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
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.pipeline DROP COLUMN event_id, DROP COLUMN retired_at")
