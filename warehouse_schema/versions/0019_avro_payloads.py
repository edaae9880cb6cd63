"""Held tuples may keep the bytes of an Avro record.

Revision ID: 0019
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_FORMER = ("json", "csv", "json.base64", "csv.base64", "text", "base64")


def _allow_encodings(encodings: tuple[str, ...]) -> None:
    listed = ", ".join(f"'{encoding}'" for encoding in encodings)
    op.execute(f"""
        ALTER TABLE freshet.held_tuple DROP CONSTRAINT held_tuple_payload_encoding_check,
            ADD CONSTRAINT held_tuple_payload_encoding_check CHECK (payload_encoding IN ({listed}));
    """)


def upgrade() -> None:
    _allow_encodings((*_FORMER, "avro", "avro.base64"))
    op.execute("""
        COMMENT ON COLUMN freshet.held_tuple.payload IS
            'The record as it arrived; of Parquet files, and of Avro records that could be read, an object of its '
            'columns.';
        COMMENT ON COLUMN freshet.held_tuple.payload_encoding IS
            'json, csv (with its header line), avro, or their bytes in base64. Of former versions: text and base64.';
    """)


def downgrade() -> None:
    # Payloads that a former version can't read: it keeps them for people to look at.
    op.execute("""
        UPDATE freshet.held_tuple SET payload_encoding = 'text' WHERE payload_encoding = 'avro';
        UPDATE freshet.held_tuple SET payload_encoding = 'base64' WHERE payload_encoding = 'avro.base64';
    """)
    _allow_encodings(_FORMER)
