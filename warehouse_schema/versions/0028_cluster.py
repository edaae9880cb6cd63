"""Which cluster the numbers of transactions are of: a dump carries them into another one, where they mean nothing.

Revision ID: 0028
"""

from alembic import op

revision = "0028"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was brought here before is told by its numbers: they are still to come.
    op.execute("""
        CREATE TABLE freshet.cluster (
            is_only           boolean PRIMARY KEY DEFAULT true CHECK (is_only),
            system_identifier bigint NOT NULL
        );
        COMMENT ON TABLE freshet.cluster IS
            'The cluster whose transactions are numbered in relation_change, held_tuple and cache.';
        ALTER TABLE freshet.relation_change ADD COLUMN former_xid xid8;
        COMMENT ON COLUMN freshet.relation_change.former_xid IS
            'The transaction in the cluster that the row was dumped from; xid is 2 then, which is before all others.';
        INSERT INTO freshet.cluster (system_identifier)
            SELECT CASE WHEN EXISTS (
                SELECT FROM freshet.relation_change WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())
            ) THEN 0 ELSE system_identifier END
            FROM pg_control_system();
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.relation_change DROP COLUMN former_xid;
        DROP TABLE freshet.cluster;
    """)
