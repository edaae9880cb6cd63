"""A validation that was cut off says nothing about the facts: a result of its own.

Revision ID: 0010
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def _allow(results: str) -> None:
    op.execute(f"""
        ALTER TABLE freshet.validation DROP CONSTRAINT validation_result_check,
            ADD CONSTRAINT validation_result_check CHECK (result IN ({results}));
    """)


def upgrade() -> None:
    _allow("'running', 'passed', 'failed', 'no data', 'error', 'cut off'")
    op.execute("""
        UPDATE freshet.validation SET result = 'cut off'
            WHERE result = 'error' AND starts_with(error, 'It was cut off before it came to a result.');
        COMMENT ON COLUMN freshet.reprocessing_run.due IS
            'Tuples to be done: those due when it began, more where more became due while it ran.';
    """)


def downgrade() -> None:
    op.execute("""
        COMMENT ON COLUMN freshet.reprocessing_run.due IS 'Tuples that the run found to be done when it began.';
        UPDATE freshet.validation SET result = 'error' WHERE result = 'cut off';
    """)
    _allow("'running', 'passed', 'failed', 'no data', 'error'")
