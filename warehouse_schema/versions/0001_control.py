"""Control schema: pipelines and their writers' epochs, drivers, batch ledger, held tuples.

Revision ID: 0001
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE freshet.pipeline (
            name              text PRIMARY KEY,
            epoch             bigint NOT NULL DEFAULT 0,
            desired_state     text NOT NULL DEFAULT 'running' CHECK (desired_state IN ('running', 'draining')),
            freshness_target  interval NOT NULL,
            definition        jsonb NOT NULL
        );
        COMMENT ON COLUMN freshet.pipeline.epoch IS
            'Epoch of the newest driver. Loaders lock this row FOR KEY SHARE and compare: an older one cannot write.';

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
            PRIMARY KEY (pipeline, epoch)
        );
        COMMENT ON COLUMN freshet.driver.process_started_at IS
            'Start time of the process: tells the driver from another process that got its id later.';

        CREATE TABLE freshet.batch (
            batch_no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            pipeline         text NOT NULL REFERENCES freshet.pipeline (name),
            epoch            bigint NOT NULL,
            spark_batch_id   bigint NOT NULL,
            state            text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'committed', 'abandoned')),
            started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            closed_at        timestamptz,
            facts            bigint NOT NULL DEFAULT 0,
            shed             bigint NOT NULL DEFAULT 0,
            unmatched        bigint NOT NULL DEFAULT 0,
            rejected         bigint NOT NULL DEFAULT 0,
            duplicates       bigint NOT NULL DEFAULT 0,
            event_latency    bigint[],
            arrival_latency  bigint[],
            statistics       jsonb NOT NULL DEFAULT '{}'
        );
        CREATE INDEX batch_of_pipeline ON freshet.batch (pipeline, batch_no);
        CREATE INDEX batch_open ON freshet.batch (pipeline) WHERE state = 'started';
        COMMENT ON TABLE freshet.batch IS
            'Batch ledger. An abandoned batch was cut off by a crash: it counts what its transactions had committed.';
        COMMENT ON COLUMN freshet.batch.duplicates IS
            'Stream tuples whose event id was already stored: sent twice, or seen again in a replayed batch.';
        COMMENT ON COLUMN freshet.batch.event_latency IS
            'Histogram of event time to commit, one count per bucket of spark_jobs/warehouse/latency.py.';

        CREATE TABLE freshet.batch_part (
            part_id          uuid PRIMARY KEY,
            batch_no         bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
            facts            bigint NOT NULL,
            shed             bigint NOT NULL,
            unmatched        bigint NOT NULL,
            rejected         bigint NOT NULL,
            duplicates       bigint NOT NULL,
            event_latency    bigint[] NOT NULL,
            arrival_latency  bigint[] NOT NULL
        );
        CREATE INDEX batch_part_of_batch ON freshet.batch_part (batch_no);
        COMMENT ON TABLE freshet.batch_part IS
            'What one loading transaction of an open batch stored; summed into the batch when that is closed.';
        COMMENT ON COLUMN freshet.batch_part.part_id IS
            'Made by the loader: tells it, after it lost its connection, whether its transaction was committed.';

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
            payload_encoding  text NOT NULL CHECK (payload_encoding IN ('json', 'text', 'base64')),
            event_time        timestamptz,
            arrived_at        timestamptz NOT NULL,
            held_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
            batch_no          bigint NOT NULL,
            attempts          integer NOT NULL DEFAULT 0,
            PRIMARY KEY (pipeline, event_id)
        );
        CREATE INDEX held_tuple_batch ON freshet.held_tuple (pipeline, batch_no);
        COMMENT ON TABLE freshet.held_tuple IS
            'Stream tuples that are not facts. One table, so that its key keeps an event id in one place only.';
        COMMENT ON COLUMN freshet.held_tuple.event_id IS
            'JSON array of the event id''s values; {"sha256": ...} of the raw record where it has none.';
        COMMENT ON COLUMN freshet.held_tuple.event_hash IS
            'Hash code of the event id: fills the filter through which loaders look for facts held earlier.';
        COMMENT ON COLUMN freshet.held_tuple.payload IS
            'The stream tuple as JSON, or the raw record as it arrived where it could not be parsed.';

        CREATE VIEW freshet.shed AS SELECT * FROM freshet.held_tuple WHERE place = 'shed';
        CREATE VIEW freshet.unmatched AS SELECT * FROM freshet.held_tuple WHERE place = 'unmatched';
        CREATE VIEW freshet.rejected AS SELECT * FROM freshet.held_tuple WHERE place = 'rejected';
    """)


def downgrade() -> None:
    op.execute("""
        DROP VIEW freshet.rejected, freshet.unmatched, freshet.shed;
        DROP TABLE freshet.held_tuple, freshet.batch_part, freshet.batch, freshet.driver, freshet.pipeline;
    """)
