"""The largest event time of a stream as its events say it: those of the future are found again.

Revision ID: 0022
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.batch_stream ADD COLUMN furthest timestamptz;
        COMMENT ON COLUMN freshet.batch_stream.furthest IS
            'The largest event time up to this batch, in the future or not; null: of a former version.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.batch_stream DROP COLUMN furthest")
