"""The last record that was read of each partition of a topic: a log that was cut and written anew is noticed.

Revision ID: 0024
"""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE freshet.partition_mark (
            pipeline       text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
            unit           text COLLATE "C" NOT NULL,
            record_offset  bigint NOT NULL,
            digest         bigint NOT NULL,
            PRIMARY KEY (pipeline, unit)
        );
        COMMENT ON TABLE freshet.partition_mark IS
            'The last record that was read of each partition, by which its log is known again.';
        COMMENT ON COLUMN freshet.partition_mark.unit IS 'The partition, as source_range.unit has it.';
        COMMENT ON COLUMN freshet.partition_mark.digest IS 'Of its leader''s epoch, its timestamp and its value.';
    """)


def downgrade() -> None:
    op.execute("DROP TABLE freshet.partition_mark")
