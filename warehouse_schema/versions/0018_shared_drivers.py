"""Shared drivers: which driver's process is asked to take a pipeline up.

Revision ID: 0018
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pipeline ADD COLUMN asked_driver text;
        COMMENT ON COLUMN freshet.pipeline.asked_driver IS
            'Name of the driver whose process is asked to take the pipeline up; NULL once it has, or could not.';
    """)


def downgrade() -> None:
    op.execute("ALTER TABLE freshet.pipeline DROP COLUMN asked_driver")
