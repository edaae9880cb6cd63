"""What became of tuples: a column of held ones, and rows of what was counted of each stream.

Revision ID: 0030
"""

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

# The last that read these words. Which rejected tuple was refused by what, they do not always tell.
_FATE = """
    CASE place
    WHEN 'shed' THEN CASE
        WHEN relation IS NOT NULL THEN 'shed'
        WHEN reason = 'joined by reprocessing: a part of it was late' THEN 'joined_late'
        ELSE 'requeued' END
    WHEN 'unmatched' THEN CASE
        WHEN relation IS NOT NULL OR event_id !~ '^[a-z0-9_]+/' THEN 'unmatched'
        WHEN reason ~ '^no .* with its key, and no more to come, by correlate.punctuations$' THEN 'expired_early'
        WHEN correlation_key IS NOT NULL OR reason ~ '^its .* part is not there yet$' THEN 'waiting'
        ELSE 'expired' END
    ELSE CASE
        WHEN reason ~ '^[0-9]+ tries came to nothing; the last one: ' THEN 'given_up'
        WHEN starts_with(reason, 'a key that can never match: ') THEN 'can_not_match'
        WHEN starts_with(reason, 'event id: ') OR starts_with(reason, 'event time: ') THEN 'unidentified'
        WHEN starts_with(reason, 'its payload can''t be read back: ')
            OR starts_with(reason, 'its payload holds no record of the source') THEN 'not_read_back'
        WHEN starts_with(reason, 'malformed: reading this record ended the process that read it') THEN 'poison'
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
# Columns of batch_stream and stream_pruned -> the fate that they counted.
_COUNTED = {
    "duplicates": "duplicate",
    "rejected": "rejected",
    "late": "late",
    "joined": "joined",
    "expired": "expired",
    "after_last": "after_last",
    "punctuations": "punctuation",
    "purged": "purged",
}
_OF_BATCH = {**_COUNTED, "waiting": "waiting"}
# Fates that a former version has no column for, and the column that counts them.
_FORMER = {
    "expired": ("expired", "expired_early", "expired_rejected"),
    "rejected": (
        "rejected", "malformed", "poison", "unidentified", "can_not_match", "not_found", "refused", "given_up",
        "not_read_back", "too_many", "second_part",
    ),
}  # fmt: skip
_TALL = (
    ("batch_stream", "batch_fate", "batch_no", _OF_BATCH),
    ("stream_pruned", "fate_pruned", "pipeline", _COUNTED),
)


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

        DROP INDEX freshet.held_tuple_requeued;
        CREATE INDEX held_tuple_requeued ON freshet.held_tuple (pipeline) WHERE fate IN ('requeued', 'joined_late');
        COMMENT ON COLUMN freshet.held_tuple.relation IS 'The relation whose lookup it is about.';

        CREATE TABLE freshet.batch_fate (
            batch_no  bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
            stream    text COLLATE "C" NOT NULL,
            fate      text COLLATE "C" NOT NULL,
            tuples    bigint NOT NULL,
            PRIMARY KEY (batch_no, stream, fate)
        );
        COMMENT ON TABLE freshet.batch_fate IS
            'What became of the events of each correlated stream in a batch; no row: of none. Of all batches together, '
            'arrived = joined + waiting after the last one + the expired + the rejected ones + duplicates.';
        COMMENT ON COLUMN freshet.batch_fate.fate IS
            'A name of spark_jobs/definition/fates.py, which tells what it adds up to.';
        CREATE TABLE freshet.fate_pruned (
            pipeline  text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
            stream    text COLLATE "C" NOT NULL,
            fate      text COLLATE "C" NOT NULL,
            tuples    bigint NOT NULL,
            PRIMARY KEY (pipeline, stream, fate)
        );
        COMMENT ON TABLE freshet.fate_pruned IS
            'Sums of freshet.batch_fate over the batches that retention has deleted, and what reprocessing has moved.';
        COMMENT ON TABLE freshet.batch_stream IS
            'How far each correlated stream had come, and how much was read of it.';
    """)
    for table, tall, key, columns in _TALL:
        for column, fate in columns.items():
            op.execute(
                f"INSERT INTO freshet.{tall} ({key}, stream, fate, tuples) "
                f"SELECT {key}, stream, '{fate}', {column} FROM freshet.{table} WHERE {column} <> 0"
            )
        op.execute(f"ALTER TABLE freshet.{table} {', '.join(f'DROP COLUMN {column}' for column in columns)}")
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
        DROP INDEX freshet.held_tuple_requeued;
        ALTER TABLE freshet.held_tuple DROP COLUMN fate;
        CREATE INDEX held_tuple_requeued ON freshet.held_tuple (pipeline) WHERE place = 'shed' AND relation IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.relation IS
            'The relation whose lookup it is about. A shed tuple without one was not shed: it waits for its new try.';
        CREATE INDEX held_tuple_awaiting_row ON freshet.held_tuple (pipeline, correlation_key)
            WHERE correlation_key IS NOT NULL AND place = 'unmatched' AND relation IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.reason IS NULL;
        COMMENT ON COLUMN freshet.held_tuple.correlation_key IS
            'Of a part of an accumulating fact: the key of its row, as a JSON array. Unmatched without a relation, it '
            'waits for that row. Null for other tuples, and where there is no such key.';
    """)
    for table, tall, key, counted_fates in _TALL:
        added = ", ".join(f"ADD COLUMN {column} bigint NOT NULL DEFAULT 0" for column in counted_fates)
        op.execute(f"ALTER TABLE freshet.{table} {added}")
        for column, fate in counted_fates.items():
            counted = ", ".join(f"'{name}'" for name in _FORMER.get(column, (fate,)))
            op.execute(f"""
                UPDATE freshet.{table} AS told SET {column} = counted.tuples
                FROM (SELECT {key}, stream, sum(tuples) AS tuples FROM freshet.{tall} WHERE fate IN ({counted})
                      GROUP BY {key}, stream) AS counted
                WHERE (told.{key}, told.stream) = (counted.{key}, counted.stream)
            """)
        op.execute(f"DROP TABLE freshet.{tall}")
    op.execute("""
        COMMENT ON TABLE freshet.batch_stream IS
            'Where the events of each correlated stream are, batch by batch: of all batches together, '
            'arrived = joined + waiting after the last one + expired + rejected + late + after_last + duplicates.';
    """)
