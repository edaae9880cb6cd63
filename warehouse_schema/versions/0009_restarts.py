"""Restarts of drivers: that the next driver is on its way shows, and which try it is.

Revision ID: 0009
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver
            ADD COLUMN restart_number integer, ADD COLUMN restart_most integer,
            ADD COLUMN restart_noted_at timestamptz;
        COMMENT ON COLUMN freshet.driver.restart_number IS
            'Of a driver that has ended: the try to bring the next one, from 1; null: none is made.';
        COMMENT ON COLUMN freshet.driver.restart_most IS 'Tries that are made.';
        COMMENT ON COLUMN freshet.driver.restart_noted_at IS
            'When its watcher noted that: a try that has brought none within minutes has come to nothing.';
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver
            DROP COLUMN restart_number, DROP COLUMN restart_most, DROP COLUMN restart_noted_at
    """)
