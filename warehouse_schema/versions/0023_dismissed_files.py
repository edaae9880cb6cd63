"""Files that were not loaded, and of which an operator wants to be told no more.

Revision ID: 0023
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.source_range ADD COLUMN dismissed_at timestamptz;
        COMMENT ON COLUMN freshet.source_range.dismissed_at IS
            'When an operator said that it is not to be loaded, and not to be told any more; null: it is told.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.source_range DROP COLUMN dismissed_at")
