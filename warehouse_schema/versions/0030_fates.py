"""What became of each held tuple is a column, which was to be read from the first words of its reason before.

Revision ID: 0030
"""

from alembic import op

revision = "0030"
down_revision = "0025"
branch_labels = None
depends_on = None

# The last that read these words. Which rejected tuple was refused by what, they do not always tell.
_FATE = """
    CASE place
    WHEN 'shed' THEN CASE
        WHEN starts_with(reason, 'requeued; it was rejected before: ') THEN 'requeued'
        WHEN reason = 'joined by reprocessing: a part of it was late' THEN 'joined_late'
        ELSE 'shed' END
    WHEN 'unmatched' THEN CASE
        WHEN relation IS NOT NULL OR event_id !~ '^[a-z0-9_]+/' THEN 'unmatched'
        WHEN correlation_key IS NOT NULL OR reason ~ '^its .* part is not there yet$' THEN 'waiting'
        ELSE 'expired' END
    ELSE CASE
        WHEN reason ~ '^[0-9]+ tries came to nothing; the last one: ' THEN 'given_up'
        WHEN starts_with(reason, 'a key that can never match: ') THEN 'can_not_match'
        WHEN starts_with(reason, 'event id: ') OR starts_with(reason, 'event time: ') THEN 'unidentified'
        WHEN starts_with(reason, 'its payload can''t be read back: ')
            OR starts_with(reason, 'its payload holds no record of the source') THEN 'not_read_back'
        WHEN starts_with(reason, 'malformed: ') OR event_id ~ '^([a-z0-9_]+/)?\\{'
            OR reason ~ ': a record of Kafka that has nothing to load$' THEN 'malformed'
        WHEN starts_with(reason, 'PostgreSQL refuses it: ') THEN 'refused'
        WHEN relation IS NOT NULL THEN CASE
            WHEN starts_with(reason, 'no tuple of ') OR starts_with(reason, 'no version of ') THEN 'not_found'
            ELSE 'rejected' END
        WHEN event_id !~ '^[a-z0-9_]+/' THEN 'rejected'
        WHEN starts_with(reason, 'late: ') THEN 'late'
        WHEN starts_with(reason, 'after the last: ') THEN 'after_last'
        WHEN starts_with(reason, 'too many: ') THEN 'too_many'
        WHEN starts_with(reason, 'a second part of ') THEN 'second_part'
        WHEN starts_with(reason, 'no ') THEN 'expired_rejected'
        ELSE 'rejected' END
    END
"""
_PLACES = ("shed", "unmatched", "rejected")


def upgrade() -> None:
    op.execute(f"""
        ALTER TABLE freshet.held_tuple ADD COLUMN fate text COLLATE "C";
        UPDATE freshet.held_tuple SET fate = {_FATE};
        ALTER TABLE freshet.held_tuple ALTER COLUMN fate SET NOT NULL;
        COMMENT ON COLUMN freshet.held_tuple.fate IS
            'What has become of it: a name of spark_jobs/definition/fates.py, which tells its place.';
        COMMENT ON COLUMN freshet.held_tuple.reason IS 'Why, in words for people: nothing reads them back.';
        COMMENT ON COLUMN freshet.held_tuple.correlation_key IS
            'Of a part of an accumulating fact: the key of its row, as a JSON array. With the fate waiting it waits '
            'for that row. Null for other tuples, and where there is no such key.';

        DROP INDEX freshet.held_tuple_awaiting_row;
        CREATE INDEX held_tuple_awaiting_row ON freshet.held_tuple (pipeline, correlation_key)
            WHERE correlation_key IS NOT NULL AND fate = 'waiting';
    """)
    for place in _PLACES:
        op.execute(
            f"CREATE OR REPLACE VIEW freshet.{place} AS SELECT * FROM freshet.held_tuple WHERE place = '{place}'"
        )


def downgrade() -> None:
    # The views name their columns: they are made anew, without the one that goes.
    columns = """
        pipeline, event_id, event_hash, place, reason, relation, payload, payload_encoding, event_time, arrived_at,
        held_at, batch_no, attempts, tried_at, tried_xmin, retry_at, source_unit, source_position, correlation_key
    """
    for place in _PLACES:
        op.execute(f"DROP VIEW freshet.{place}")
        op.execute(f"CREATE VIEW freshet.{place} AS SELECT {columns} FROM freshet.held_tuple WHERE place = '{place}'")
    op.execute("""
        DROP INDEX freshet.held_tuple_awaiting_row;
        ALTER TABLE freshet.held_tuple DROP COLUMN fate;
        CREATE INDEX held_tuple_awaiting_row ON freshet.held_tuple (pipeline, correlation_key)
            WHERE correlation_key IS NOT NULL AND place = 'unmatched' AND relation IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.reason IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.correlation_key IS
            'Of a part of an accumulating fact: the key of its row, as a JSON array. Unmatched without a relation, it '
            'waits for that row. Null for other tuples, and where there is no such key.';
    """)
