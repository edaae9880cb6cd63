"""Punctuations of correlated streams: how many came, what left for them, and what came though they had.

Revision ID: 0020
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLES = ("batch_stream", "stream_pruned")
_COUNTS = ("after_last", "punctuations", "purged")


def upgrade() -> None:
    for table in _TABLES:
        added = ", ".join(f"ADD COLUMN {name} bigint NOT NULL DEFAULT 0" for name in _COUNTS)
        op.execute(f"ALTER TABLE freshet.{table} {added}")
    op.execute("""
        COMMENT ON TABLE freshet.batch_stream IS
            'Where the events of each correlated stream are, batch by batch: of all batches together, '
            'arrived = joined + waiting after the last one + expired + rejected + late + after_last + duplicates.';
        COMMENT ON COLUMN freshet.batch_stream.after_last IS
            'Events that came though a punctuation of the stream had said that no more of their key come.';
        COMMENT ON COLUMN freshet.batch_stream.punctuations IS 'How often it was said that no more of a key come.';
        COMMENT ON COLUMN freshet.batch_stream.purged IS
            'Events that left the state because no other stream brings more of their key: joined or expired ones.';
    """)


def downgrade() -> None:
    # What a former version knows of is rejected.
    for table in _TABLES:
        op.execute(f"UPDATE freshet.{table} SET rejected = rejected + after_last WHERE after_last <> 0")
        op.execute(f"ALTER TABLE freshet.{table} {', '.join(f'DROP COLUMN {name}' for name in _COUNTS)}")
    op.execute("""
        COMMENT ON TABLE freshet.batch_stream IS
            'Where the events of each correlated stream are, batch by batch: of all batches together, '
            'arrived = joined + waiting after the last one + expired + rejected + late + duplicates.';
    """)
