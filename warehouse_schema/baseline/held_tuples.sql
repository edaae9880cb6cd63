-- Stream tuples that are not facts: shed, unmatched and rejected ones, and what retention keeps of them.

-- No foreign key to the pipeline: the loader has its row locked, and checking each tuple again takes as
-- long as storing it.
CREATE TABLE freshet.held_tuple (
    pipeline          text COLLATE "C" NOT NULL,
    event_id          text COLLATE "C" NOT NULL,
    event_hash        bigint NOT NULL,
    place             text NOT NULL CHECK (place IN ('shed', 'unmatched', 'rejected')),
    reason            text NOT NULL,
    relation          text,
    payload           text NOT NULL,
    payload_encoding  text NOT NULL CHECK (payload_encoding IN (
                          'json', 'csv', 'json.base64', 'csv.base64', 'text', 'base64', 'avro', 'avro.base64')),
    event_time        timestamptz,
    arrived_at        timestamptz NOT NULL,
    held_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    batch_no          bigint NOT NULL,
    attempts          integer NOT NULL DEFAULT 0,
    tried_at          timestamptz,
    tried_xmin        xid8,
    retry_at          timestamptz,
    source_unit       text,
    source_position   bigint,
    correlation_key   text COLLATE "C",
    fate              text COLLATE "C" NOT NULL,
    PRIMARY KEY (pipeline, event_id)
);
CREATE INDEX held_tuple_batch ON freshet.held_tuple (pipeline, batch_no);
-- Rejected tuples, which nobody tries again, cost it nothing.
CREATE INDEX held_tuple_waiting ON freshet.held_tuple (pipeline, place, batch_no)
    WHERE place IN ('shed', 'unmatched');
CREATE INDEX held_tuple_awaiting_row ON freshet.held_tuple (pipeline, correlation_key)
    WHERE correlation_key IS NOT NULL AND fate = 'waiting';
CREATE INDEX held_tuple_requeued ON freshet.held_tuple (pipeline) WHERE fate IN ('requeued', 'joined_late');
COMMENT ON TABLE freshet.held_tuple IS
    'Stream tuples that are not facts. One table, so that its key keeps an event id in one place only.';
COMMENT ON COLUMN freshet.held_tuple.event_id IS
    'JSON array of the event id''s values; {"sha256": ...} of the raw record where it has none.';
COMMENT ON COLUMN freshet.held_tuple.event_hash IS
    'Hash code of the event id: fills the filter through which loaders look for facts held earlier.';
COMMENT ON COLUMN freshet.held_tuple.reason IS 'Why, in words for people: nothing reads them back.';
COMMENT ON COLUMN freshet.held_tuple.relation IS 'The relation whose lookup it is about.';
COMMENT ON COLUMN freshet.held_tuple.payload IS
    'The record as it arrived; of Parquet files, and of Avro records that could be read, an object of its '
    'columns.';
COMMENT ON COLUMN freshet.held_tuple.payload_encoding IS
    'json, csv (with its header line), avro, or their bytes in base64. Of former versions: text and base64.';
COMMENT ON COLUMN freshet.held_tuple.attempts IS 'Attempts to make a fact of it that came to nothing.';
COMMENT ON COLUMN freshet.held_tuple.tried_at IS 'When the last of them was made.';
COMMENT ON COLUMN freshet.held_tuple.tried_xmin IS
    'Changes of R by this transaction and later ones may have been committed too late for it to see them.';
COMMENT ON COLUMN freshet.held_tuple.retry_at IS 'When the next one counts; null: at any time.';
COMMENT ON COLUMN freshet.held_tuple.source_unit IS 'The range''s unit that it came in: its file.';
COMMENT ON COLUMN freshet.held_tuple.source_position IS
    'Where in that: offset of its first byte, in a Parquet file the number of its row.';
COMMENT ON COLUMN freshet.held_tuple.correlation_key IS
    'Of a part of an accumulating fact: the key of its row, as a JSON array. With the fate waiting it waits '
    'for that row. Null for other tuples, and where there is no such key.';
COMMENT ON COLUMN freshet.held_tuple.fate IS
    'What has become of it: a name of spark_jobs/definition/fates.py, which tells its place.';

CREATE VIEW freshet.shed AS SELECT * FROM freshet.held_tuple WHERE place = 'shed';
CREATE VIEW freshet.unmatched AS SELECT * FROM freshet.held_tuple WHERE place = 'unmatched';
CREATE VIEW freshet.rejected AS SELECT * FROM freshet.held_tuple WHERE place = 'rejected';

CREATE TABLE freshet.pruned_tuple (
    pipeline    text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    place       text NOT NULL CHECK (place IN ('shed', 'unmatched', 'rejected')),
    pruned_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_hash  bigint NOT NULL,
    batch_no    bigint NOT NULL,
    PRIMARY KEY (pipeline, event_id)
);
CREATE INDEX pruned_tuple_batch ON freshet.pruned_tuple (pipeline, batch_no);
COMMENT ON TABLE freshet.pruned_tuple IS
    'Held tuples that retention has deleted: that they arrived is kept, and sent again they are duplicates.';
COMMENT ON COLUMN freshet.pruned_tuple.event_hash IS
    'As the held tuple had it: fills the filter through which loaders look for what arrived earlier.';
COMMENT ON COLUMN freshet.pruned_tuple.batch_no IS
    'As the held tuple had it; 0: pruned before there was this, so held by a batch before all later ones.';
