"""The ledger is the checkpoint: what each batch reads of the source, and how many records arrived.

Revision ID: 0011
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_HELD = (
    "pipeline, event_id, event_hash, place, reason, relation, payload, payload_encoding, event_time, arrived_at, "
    "held_at, batch_no, attempts"
)
_PLACES = ("shed", "unmatched", "rejected")
_ENCODINGS = ("json", "csv", "json.base64", "csv.base64", "text", "base64")


def _allow_encodings(encodings: tuple[str, ...]) -> None:
    listed = ", ".join(f"'{encoding}'" for encoding in encodings)
    op.execute(f"""
        ALTER TABLE freshet.held_tuple DROP CONSTRAINT held_tuple_payload_encoding_check,
            ADD CONSTRAINT held_tuple_payload_encoding_check CHECK (payload_encoding IN ({listed}));
    """)


def upgrade() -> None:
    op.execute("""
        CREATE TABLE freshet.source_range (
            range_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            pipeline     text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
            batch_no     bigint,
            unit         text COLLATE "C" NOT NULL,
            first        bigint NOT NULL,
            last         bigint NOT NULL CHECK (last >= first),
            size         bigint,
            modified_ns  bigint,
            landed_at    timestamptz,
            state        text NOT NULL
                         CHECK (state IN ('planned', 'loaded', 'set aside', 'lost', 'to retry', 'retried')),
            records      bigint,
            reason       text,
            removed_at   timestamptz
        );
        CREATE INDEX source_range_unit ON freshet.source_range (pipeline, unit);
        CREATE INDEX source_range_batch ON freshet.source_range (batch_no);
        CREATE INDEX source_range_kept ON freshet.source_range (pipeline, unit)
            WHERE state = 'loaded' AND removed_at IS NULL;
        CREATE INDEX source_range_open ON freshet.source_range (pipeline)
            WHERE state IN ('planned', 'set aside', 'lost', 'to retry');
        COMMENT ON TABLE freshet.source_range IS
            'What has been planned and read of each source: the position of the stream. A range is planned when its '
            'batch opens, and loaded, set aside or lost when it closes.';
        COMMENT ON COLUMN freshet.source_range.batch_no IS
            'The batch that reads it; null where it was read before the ledger held positions, or by no batch.';
        COMMENT ON COLUMN freshet.source_range.unit IS
            'Name of the file in the landing folder: bytes that are no UTF-8 as \\xNN, a backslash doubled.';
        COMMENT ON COLUMN freshet.source_range.first IS 'Offset of its first byte in the file.';
        COMMENT ON COLUMN freshet.source_range.last IS 'Offset after its last byte in the file.';
        COMMENT ON COLUMN freshet.source_range.size IS 'Bytes of the whole file, as it was planned.';
        COMMENT ON COLUMN freshet.source_range.modified_ns IS
            'When the file was changed last, in ns since 1970, as it was planned. With its size it tells files of one '
            'name apart.';
        COMMENT ON COLUMN freshet.source_range.state IS
            'set aside: the file can''t be read, or was changed after it was loaded. lost: gone before it was read, '
            'and given up. to retry: to be read again, as a new range; it is retried then.';
        COMMENT ON COLUMN freshet.source_range.removed_at IS
            'When the loaded file was archived or deleted, as source.after_load says.';
        COMMENT ON COLUMN freshet.source_range.records IS 'Records that were read of it; null where nobody counted.';

        ALTER TABLE freshet.batch DROP COLUMN spark_batch_id, ADD COLUMN arrived bigint;
        COMMENT ON COLUMN freshet.batch.arrived IS
            'Records of its ranges, counted where they were read: equal to what is stored and the duplicates. Null '
            'in batches that were closed before records were counted.';
        COMMENT ON TABLE freshet.batch IS
            'Batch ledger. A batch that was cut off stays open, and the next driver goes on with it. Abandoned ones '
            'are from before: they count what their transactions had committed.';
        ALTER TABLE freshet.ledger_minute ADD COLUMN arrived bigint NOT NULL DEFAULT 0;
        ALTER TABLE freshet.ledger_pruned ADD COLUMN arrived bigint NOT NULL DEFAULT 0;
        UPDATE freshet.ledger_minute SET arrived = facts + shed + unmatched + rejected + duplicates;
        UPDATE freshet.ledger_pruned SET arrived = facts + shed + unmatched + rejected + duplicates;

        ALTER TABLE freshet.held_tuple ADD COLUMN source_unit text, ADD COLUMN source_position bigint;
        COMMENT ON COLUMN freshet.held_tuple.payload IS
            'The record as it arrived; of Parquet files an object of its columns.';
        COMMENT ON COLUMN freshet.held_tuple.payload_encoding IS
            'json, csv (with its header line), or their bytes in base64. Of former versions: text and base64.';
        COMMENT ON COLUMN freshet.held_tuple.source_unit IS 'The range''s unit that it came in: its file.';
        COMMENT ON COLUMN freshet.held_tuple.source_position IS
            'Where in that: offset of its first byte, in a Parquet file the number of its row.';
    """)
    _allow_encodings(_ENCODINGS)
    for place in _PLACES:
        op.execute(
            f"CREATE OR REPLACE VIEW freshet.{place} AS SELECT * FROM freshet.held_tuple WHERE place = '{place}'"
        )


def downgrade() -> None:
    for place in _PLACES:
        op.execute(f"DROP VIEW freshet.{place}")
        op.execute(f"CREATE VIEW freshet.{place} AS SELECT {_HELD} FROM freshet.held_tuple WHERE place = '{place}'")
    # Payloads that a former version can't read: it keeps them for people to look at.
    op.execute("""
        UPDATE freshet.held_tuple SET payload_encoding = 'text' WHERE payload_encoding = 'csv';
        UPDATE freshet.held_tuple SET payload_encoding = 'base64' WHERE payload_encoding LIKE '%.base64';
    """)
    _allow_encodings(("json", "text", "base64"))
    op.execute("""
        ALTER TABLE freshet.held_tuple DROP COLUMN source_unit, DROP COLUMN source_position;
        ALTER TABLE freshet.ledger_pruned DROP COLUMN arrived;
        ALTER TABLE freshet.ledger_minute DROP COLUMN arrived;
        ALTER TABLE freshet.batch DROP COLUMN arrived, ADD COLUMN spark_batch_id bigint NOT NULL DEFAULT 0;
        COMMENT ON TABLE freshet.batch IS
            'Batch ledger. An abandoned batch was cut off by a crash: it counts what its transactions had committed.';
        DROP TABLE freshet.source_range;
    """)
