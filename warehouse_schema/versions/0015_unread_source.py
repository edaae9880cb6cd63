"""Lag: what has landed in a source and is not loaded, as the driver's last look found it.

Revision ID: 0015
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver
            ADD COLUMN looked_at timestamptz, ADD COLUMN unread_files bigint, ADD COLUMN unread_bytes bigint,
            ADD COLUMN unread_since timestamptz;
        COMMENT ON COLUMN freshet.driver.looked_at IS
            'When it looked at its source last: what is said of unread files counts as of then.';
        COMMENT ON COLUMN freshet.driver.unread_files IS
            'Files that had landed then and were in no batch, or not to their end. Those of the open batch are in '
            'freshet.source_range, as planned.';
        COMMENT ON COLUMN freshet.driver.unread_bytes IS 'Their bytes that were in no batch.';
        COMMENT ON COLUMN freshet.driver.unread_since IS 'When the oldest of them landed.';
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver
            DROP COLUMN looked_at, DROP COLUMN unread_files, DROP COLUMN unread_bytes, DROP COLUMN unread_since
    """)
