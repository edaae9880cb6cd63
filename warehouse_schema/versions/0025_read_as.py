"""By which definition a batch has read its records: one that was corrected reads others.

Revision ID: 0025
"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.batch ADD COLUMN read_as text;
        COMMENT ON COLUMN freshet.batch.read_as IS
            'Digest of how the definition says that records look; several: of more than one, null: not known.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.batch DROP COLUMN read_as")
