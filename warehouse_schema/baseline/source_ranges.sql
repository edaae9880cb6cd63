-- The position of each stream: what was planned and read of its source, and what became of it.

CREATE TABLE freshet.source_range (
    range_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline      text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
    batch_no      bigint,
    unit          text COLLATE "C" NOT NULL,
    first         bigint NOT NULL,
    last          bigint NOT NULL CHECK (last >= first),
    size          bigint,
    modified_ns   bigint,
    landed_at     timestamptz,
    state         text NOT NULL
                  CHECK (state IN ('planned', 'loaded', 'set aside', 'lost', 'to retry', 'retried')),
    records       bigint,
    reason        text,
    removed_at    timestamptz,
    lost_at       timestamptz,
    dismissed_at  timestamptz,
    poison        jsonb
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
    'Name of the file in the landing folder: bytes that are no UTF-8 as \xNN, a backslash doubled.';
COMMENT ON COLUMN freshet.source_range.first IS 'Offset of its first byte in the file.';
COMMENT ON COLUMN freshet.source_range.last IS 'Offset after its last byte in the file.';
COMMENT ON COLUMN freshet.source_range.size IS 'Bytes of the whole file, as it was planned.';
COMMENT ON COLUMN freshet.source_range.modified_ns IS
    'When the file was changed last, in ns since 1970, as it was planned. With its size it tells files of one '
    'name apart.';
COMMENT ON COLUMN freshet.source_range.state IS
    'set aside: the file can''t be read, or was changed after it was loaded. lost: gone before it was read, '
    'and given up. to retry: to be read again, as a new range; it is retried then.';
COMMENT ON COLUMN freshet.source_range.records IS 'Records that were read of it; null where nobody counted.';
COMMENT ON COLUMN freshet.source_range.removed_at IS
    'When the loaded file was archived or deleted, as source.after_load says.';
COMMENT ON COLUMN freshet.source_range.lost_at IS
    'When it was given up, or found to be gone; null where it was not, or by a former version.';
COMMENT ON COLUMN freshet.source_range.dismissed_at IS
    'When an operator said that it is not to be loaded, and not to be told any more; null: it is told.';
COMMENT ON COLUMN freshet.source_range.poison IS
    'What of it is not decoded, since reading it ended the process: positions from and to, how it ended.';

CREATE FUNCTION freshet.note_loss() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            IF TG_OP = 'INSERT' OR OLD.state <> 'lost' THEN
                NEW.lost_at := clock_timestamp();
            END IF;
            RETURN NEW;
        END $function$;
CREATE TRIGGER note_loss BEFORE INSERT OR UPDATE OF state ON freshet.source_range
    FOR EACH ROW WHEN (NEW.state = 'lost') EXECUTE FUNCTION freshet.note_loss();

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
