-- Pipelines and their writers' epochs, the drivers that run them, and what charts mark.

CREATE TABLE freshet.pipeline (
    name              text PRIMARY KEY,
    epoch             bigint NOT NULL DEFAULT 0,
    desired_state     text NOT NULL DEFAULT 'running' CHECK (desired_state IN ('running', 'draining')),
    freshness_target  interval NOT NULL,
    definition        jsonb NOT NULL,
    desired_at        timestamptz,
    event_id          text[],
    retired_at        timestamptz,
    sketched_after    bigint NOT NULL DEFAULT 0,
    asked_driver      text
);
COMMENT ON COLUMN freshet.pipeline.epoch IS
    'Epoch of the newest driver. Loaders lock this row FOR KEY SHARE and compare: an older one cannot write.';
COMMENT ON COLUMN freshet.pipeline.desired_at IS
    'When desired_state was written last, changed or not. Running, and later than the end of the newest '
    'driver: a start that no driver has followed. Null: never, or not since there was this column.';
COMMENT ON COLUMN freshet.pipeline.event_id IS
    'Name and type of each column of the event id, which decide the text of held ids; null: registered before '
    'there was this.';
COMMENT ON COLUMN freshet.pipeline.retired_at IS
    'Since when the pipeline is no longer used, so that another one may have its fact table; null: it is.';
COMMENT ON COLUMN freshet.pipeline.sketched_after IS
    'Batches and reprocessing runs up to this number began before there were sketches of event ids.';
COMMENT ON COLUMN freshet.pipeline.asked_driver IS
    'Name of the driver whose process is asked to take the pipeline up; NULL once it has, or could not.';

CREATE TABLE freshet.driver (
    pipeline              text NOT NULL REFERENCES freshet.pipeline (name),
    epoch                 bigint NOT NULL,
    state                 text NOT NULL CHECK (state IN ('running', 'stopped', 'failed', 'fenced')),
    host                  text NOT NULL,
    process_id            integer NOT NULL,
    process_started_at    timestamptz NOT NULL,
    spark_application_id  text,
    spark_ui_url          text,
    log_file              text,
    started_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at            timestamptz,
    error                 text,
    blocked_by            text,
    blocked_since         timestamptz,
    restart_number        integer,
    restart_most          integer,
    restart_noted_at      timestamptz,
    looked_at             timestamptz,
    unread_files          bigint,
    unread_bytes          bigint,
    unread_since          timestamptz,
    partitions            jsonb,
    unread_partitions     bigint,
    PRIMARY KEY (pipeline, epoch),
    CHECK ((blocked_by IS NULL) = (blocked_since IS NULL))
);
COMMENT ON COLUMN freshet.driver.process_started_at IS
    'Start time of the process: tells the driver from another process that got its id later.';
COMMENT ON COLUMN freshet.driver.blocked_by IS
    'Why the driver can''t go on, though it lives and tries: a table refuses what it loads, the disk is full.';
COMMENT ON COLUMN freshet.driver.restart_number IS
    'Of a driver that has ended: the try to bring the next one, from 1; null: none is made.';
COMMENT ON COLUMN freshet.driver.restart_most IS 'Tries that are made.';
COMMENT ON COLUMN freshet.driver.restart_noted_at IS
    'When its watcher noted that: a try that has brought none within minutes has come to nothing.';
COMMENT ON COLUMN freshet.driver.looked_at IS
    'When it looked at its source last: what is said of unread files counts as of then.';
COMMENT ON COLUMN freshet.driver.unread_files IS
    'Files that had landed then and were in no batch, or not to their end. Those of the open batch are in '
    'freshet.source_range, as planned.';
COMMENT ON COLUMN freshet.driver.unread_bytes IS 'Their bytes that were in no batch.';
COMMENT ON COLUMN freshet.driver.unread_since IS 'When the oldest of them landed.';
COMMENT ON COLUMN freshet.driver.partitions IS
    'Of a topic: position and end of its partitions when it looked at them last; null: of other sources.';
COMMENT ON COLUMN freshet.driver.unread_partitions IS
    'Partitions of topics that had records then that were in no batch.';

CREATE TABLE freshet.pipeline_event (
    event_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL REFERENCES freshet.pipeline (name),
    happened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind         text NOT NULL CHECK (kind IN ('definition', 'rebuild')),
    detail       text NOT NULL
);
CREATE INDEX pipeline_event_of_pipeline ON freshet.pipeline_event (pipeline, happened_at);
COMMENT ON TABLE freshet.pipeline_event IS 'What charts mark and histories list, and no other table keeps.';
COMMENT ON COLUMN freshet.pipeline_event.detail IS 'The keys of the definition that changed; what was rebuilt.';

-- Triggers, so that what is written by hand counts as well.
CREATE FUNCTION freshet.note_desired_at() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            NEW.desired_at := clock_timestamp();
            RETURN NEW;
        END $function$;
CREATE TRIGGER note_desired_at BEFORE UPDATE OF desired_state ON freshet.pipeline
    FOR EACH ROW EXECUTE FUNCTION freshet.note_desired_at();

CREATE FUNCTION freshet.note_definition() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            INSERT INTO freshet.pipeline_event (pipeline, kind, detail)
            SELECT NEW.name, 'definition', string_agg(key, ', ' ORDER BY key)
            FROM jsonb_each(OLD.definition) AS former FULL JOIN jsonb_each(NEW.definition) AS newer USING (key)
            WHERE former.value IS DISTINCT FROM newer.value;
            RETURN NULL;
        END $function$;
CREATE TRIGGER note_definition AFTER UPDATE OF definition ON freshet.pipeline
    FOR EACH ROW WHEN (OLD.definition <> NEW.definition) EXECUTE FUNCTION freshet.note_definition();

CREATE TABLE freshet.cluster (
    is_only            boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    system_identifier  bigint NOT NULL
);
COMMENT ON TABLE freshet.cluster IS
    'The cluster whose transactions are numbered in relation_change, held_tuple and cache.';
INSERT INTO freshet.cluster (system_identifier) SELECT system_identifier FROM pg_control_system();
