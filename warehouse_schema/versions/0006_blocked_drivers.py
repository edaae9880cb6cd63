"""Drivers that live and can't go on: why, and since when.

Revision ID: 0006
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver
            ADD COLUMN blocked_by text, ADD COLUMN blocked_since timestamptz,
            ADD CHECK ((blocked_by IS NULL) = (blocked_since IS NULL));
        COMMENT ON COLUMN freshet.driver.blocked_by IS
            'Why the driver can''t go on, though it lives and tries: a table refuses what it loads, the disk is full.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.driver DROP COLUMN blocked_by, DROP COLUMN blocked_since")
