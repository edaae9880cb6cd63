-- What operation leaves behind: reprocessing runs, validations, and times without fresh facts.

-- Numbered in one row with the batches: a fact's batch_no names the load that stored it, whichever it was.
CREATE TABLE freshet.reprocessing_run (
    batch_no       bigint PRIMARY KEY DEFAULT nextval(pg_get_serial_sequence('freshet.batch', 'batch_no')),
    pipeline       text NOT NULL REFERENCES freshet.pipeline (name),
    state          text NOT NULL DEFAULT 'running'
                       CHECK (state IN ('running', 'finished', 'yielded', 'failed', 'abandoned')),
    airflow_run    text,
    algorithm      text NOT NULL,
    places         text[] NOT NULL,
    arrived_from   timestamptz,
    arrived_until  timestamptz,
    tuple_limit    bigint NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at      timestamptz,
    error          text,
    due            bigint NOT NULL DEFAULT 0,
    taken          bigint NOT NULL DEFAULT 0,
    facts          bigint NOT NULL DEFAULT 0,
    shed           bigint NOT NULL DEFAULT 0,
    unmatched      bigint NOT NULL DEFAULT 0,
    rejected       bigint NOT NULL DEFAULT 0,
    event_latency  bigint[],
    statistics     jsonb NOT NULL DEFAULT '{}',
    seen           pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    validation_id  bigint
);
CREATE INDEX reprocessing_run_of_pipeline ON freshet.reprocessing_run (pipeline, batch_no);
COMMENT ON TABLE freshet.reprocessing_run IS
    'One run over held tuples. Its counts are changes of the balance: facts up, shed down, for example.';
COMMENT ON COLUMN freshet.reprocessing_run.due IS
    'Tuples to be done: those due when it began, more where more became due while it ran.';
COMMENT ON COLUMN freshet.reprocessing_run.taken IS 'Tuples that it is done with: its progress.';
COMMENT ON COLUMN freshet.reprocessing_run.seen IS 'From before it read R: what this shows, its tries saw.';

CREATE TABLE freshet.validation (
    validation_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline       text NOT NULL REFERENCES freshet.pipeline (name),
    airflow_run    text,
    scope          text NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at      timestamptz,
    result         text NOT NULL DEFAULT 'running'
                       CHECK (result IN ('running', 'passed', 'failed', 'no data', 'error', 'cut off')),
    facts          bigint,
    expectations   integer,
    failed         integer,
    error          text,
    page           text
);
CREATE INDEX validation_of_pipeline ON freshet.validation (pipeline, validation_id);
COMMENT ON COLUMN freshet.validation.scope IS 'Which facts were looked at, in words.';
COMMENT ON COLUMN freshet.validation.page IS 'Data Docs page, relative to the pipeline''s folder of them.';

CREATE TABLE freshet.validation_result (
    validation_id  bigint NOT NULL REFERENCES freshet.validation ON DELETE CASCADE,
    number         integer NOT NULL,
    expectation    text NOT NULL,
    columns        text[] NOT NULL DEFAULT '{}',
    passed         boolean NOT NULL,
    unexpected     bigint,
    examples       jsonb NOT NULL DEFAULT '[]',
    message        text,
    PRIMARY KEY (validation_id, number)
);

CREATE TABLE freshet.freshness_episode (
    episode_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline          text NOT NULL REFERENCES freshet.pipeline (name),
    began_at          timestamptz NOT NULL,
    reason            text NOT NULL,
    alerted_at        timestamptz,
    recovered_at      timestamptz,
    recovery_told_at  timestamptz
);
CREATE UNIQUE INDEX freshness_episode_open ON freshet.freshness_episode (pipeline) WHERE recovered_at IS NULL;
COMMENT ON TABLE freshet.freshness_episode IS 'Times during which a pipeline missed its freshness target.';
