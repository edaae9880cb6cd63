"""Held tuples that were requeued are counted apart from what was shed: few tuples of a large table.

Revision ID: 0029
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE INDEX held_tuple_requeued ON freshet.held_tuple (pipeline) WHERE place = 'shed' AND relation IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.relation IS
            'The relation whose lookup it is about. A shed tuple without one was not shed: it waits for its new try.';
    """)


def downgrade() -> None:
    op.execute("""
        DROP INDEX freshet.held_tuple_requeued;
        COMMENT ON COLUMN freshet.held_tuple.relation IS NULL;
    """)
