"""Records that end the process that reads them: they are not decoded again.

Revision ID: 0026
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.source_range ADD COLUMN poison jsonb;
        COMMENT ON COLUMN freshet.source_range.poison IS
            'What of it is not decoded, since reading it ended the process: positions from and to, how it ended.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.source_range DROP COLUMN poison")
