"""Ranges say of which kind of source they are; formats of what is held are named by the program alone.

Revision ID: 0031
"""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

# How the ledger called a partition of a topic, of one of several streams, too, when only its name told what it is.
_PARTITION = "^([^:@/]+/)?[^:@/]+:[0-9]+@[A-Za-z0-9+/_-]{22}$"
_ENCODINGS = ("json", "csv", "avro", "text", "base64", "json.base64", "csv.base64", "avro.base64")


def upgrade() -> None:
    op.execute(f"""
        ALTER TABLE freshet.source_range ADD COLUMN kind text NOT NULL DEFAULT 'files';
        UPDATE freshet.source_range SET kind = 'kafka' WHERE unit ~ '{_PARTITION}';
        COMMENT ON COLUMN freshet.source_range.kind IS
            'Of the source that it was planned in: files, kafka, ... It says what units and offsets are.';
        ALTER TABLE freshet.held_tuple DROP CONSTRAINT held_tuple_payload_encoding_check;
        COMMENT ON COLUMN freshet.held_tuple.payload_encoding IS
            'json, csv (with its header line), ...; with .base64 behind: in base64. Of former versions: text, base64.';
        COMMENT ON COLUMN freshet.batch.event_latency IS
            'Histogram of event time to commit, one count per bucket of spark_jobs/ledger/latency.py.';
    """)


def downgrade() -> None:
    listed = ", ".join(f"'{encoding}'" for encoding in _ENCODINGS)
    op.execute(f"""
        ALTER TABLE freshet.source_range DROP COLUMN kind;
        UPDATE freshet.held_tuple SET payload_encoding =
                CASE WHEN payload_encoding LIKE '%.base64' THEN 'base64' ELSE 'text' END
            WHERE payload_encoding NOT IN ({listed});
        ALTER TABLE freshet.held_tuple
            ADD CONSTRAINT held_tuple_payload_encoding_check CHECK (payload_encoding IN ({listed}));
        COMMENT ON COLUMN freshet.held_tuple.payload_encoding IS
            'json, csv (with its header line), avro, or their bytes in base64. Of former versions: text and base64.';
        COMMENT ON COLUMN freshet.batch.event_latency IS
            'Histogram of event time to commit, one count per bucket of spark_jobs/warehouse/latency.py.';
    """)
