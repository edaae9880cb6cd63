"""Operation: reprocessing runs, caches, validations, alerts, the ledger by minute, what was pruned.

Revision ID: 0003
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.held_tuple
            ADD COLUMN tried_at timestamptz, ADD COLUMN tried_xmin xid8, ADD COLUMN retry_at timestamptz;
        COMMENT ON COLUMN freshet.held_tuple.attempts IS 'Attempts to make a fact of it that came to nothing.';
        COMMENT ON COLUMN freshet.held_tuple.tried_at IS 'When the last of them was made.';
        COMMENT ON COLUMN freshet.held_tuple.tried_xmin IS
            'Changes of R by this transaction and later ones may have been committed too late for it to see them.';
        COMMENT ON COLUMN freshet.held_tuple.retry_at IS 'When the next one counts; null: at any time.';
        -- Rejected tuples, which nobody tries again, cost it nothing.
        CREATE INDEX held_tuple_waiting ON freshet.held_tuple (pipeline, place, batch_no)
            WHERE place IN ('shed', 'unmatched');

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
        COMMENT ON COLUMN freshet.reprocessing_run.due IS 'Tuples that the run found to be done when it began.';
        COMMENT ON COLUMN freshet.reprocessing_run.taken IS 'Tuples that it is done with: its progress.';
        COMMENT ON COLUMN freshet.reprocessing_run.seen IS 'From before it read R: what this shows, its tries saw.';

        ALTER TABLE freshet.batch ADD COLUMN validation_id bigint;
        CREATE INDEX batch_unvalidated ON freshet.batch (pipeline, batch_no)
            WHERE validation_id IS NULL AND state <> 'started' AND facts > 0;
        COMMENT ON COLUMN freshet.batch.validation_id IS 'The validation that looked at its facts; null: none yet.';

        -- Sums of the ledger by minute: what charts and percentiles of hours and days are made of.
        CREATE TABLE freshet.ledger_minute (
            pipeline         text NOT NULL REFERENCES freshet.pipeline (name),
            minute           timestamptz NOT NULL,
            batches          bigint NOT NULL,
            facts            bigint NOT NULL,
            shed             bigint NOT NULL,
            unmatched        bigint NOT NULL,
            rejected         bigint NOT NULL,
            duplicates       bigint NOT NULL,
            probes           bigint NOT NULL,
            hits             bigint NOT NULL,
            event_latency    bigint[] NOT NULL,
            arrival_latency  bigint[] NOT NULL,
            stage_seconds    jsonb NOT NULL DEFAULT '{}',
            PRIMARY KEY (pipeline, minute)
        );
        -- Sums of what retention has deleted from the ledger, so that the balance still holds.
        CREATE TABLE freshet.ledger_pruned (
            pipeline       text PRIMARY KEY REFERENCES freshet.pipeline (name),
            batches        bigint NOT NULL DEFAULT 0,
            facts          bigint NOT NULL DEFAULT 0,
            shed           bigint NOT NULL DEFAULT 0,
            unmatched      bigint NOT NULL DEFAULT 0,
            rejected       bigint NOT NULL DEFAULT 0,
            duplicates     bigint NOT NULL DEFAULT 0,
            probes         bigint NOT NULL DEFAULT 0,
            hits           bigint NOT NULL DEFAULT 0,
            event_latency  bigint[]
        );
        CREATE TABLE freshet.pruned_tuple (
            pipeline   text COLLATE "C" NOT NULL,
            event_id   text COLLATE "C" NOT NULL,
            place      text NOT NULL CHECK (place IN ('shed', 'unmatched', 'rejected')),
            pruned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (pipeline, event_id)
        );
        COMMENT ON TABLE freshet.pruned_tuple IS 'Held tuples that retention has deleted: that they arrived is kept.';

        CREATE TABLE freshet.cache (
            pipeline          text NOT NULL REFERENCES freshet.pipeline (name),
            lookup            integer NOT NULL,
            relation          text NOT NULL,
            version           bigint NOT NULL DEFAULT 0,
            origin            text CHECK (origin IN ('learned', 'rebuilt')),
            hot_tuples        bigint NOT NULL DEFAULT 0,
            built_at          timestamptz,
            rebuilt_at        timestamptz,
            snapshot_version  bigint,
            snapshot_at       timestamptz,
            watched           text NOT NULL DEFAULT 'nothing' CHECK (watched IN ('triggers', 'rereading', 'nothing')),
            noticed           pg_snapshot,
            noticed_at        timestamptz,
            notice_changes    interval NOT NULL,
            refused           text,
            refused_at        timestamptz,
            PRIMARY KEY (pipeline, lookup)
        );
        COMMENT ON TABLE freshet.cache IS 'What each lookup''s front stage and copy of R hold, as its driver tells.';
        COMMENT ON COLUMN freshet.cache.noticed IS
            'Changes of R by transactions visible in this snapshot have reached the front stage.';
        COMMENT ON COLUMN freshet.cache.refused IS 'Why the newest version on disk is not used.';

        CREATE TABLE freshet.validation (
            validation_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            pipeline       text NOT NULL REFERENCES freshet.pipeline (name),
            airflow_run    text,
            scope          text NOT NULL,
            started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            closed_at      timestamptz,
            result         text NOT NULL DEFAULT 'running'
                               CHECK (result IN ('running', 'passed', 'failed', 'no data', 'error')),
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
            episode_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            pipeline      text NOT NULL REFERENCES freshet.pipeline (name),
            began_at      timestamptz NOT NULL,
            reason        text NOT NULL,
            alerted_at    timestamptz,
            recovered_at  timestamptz,
            recovery_told_at  timestamptz
        );
        CREATE UNIQUE INDEX freshness_episode_open ON freshet.freshness_episode (pipeline)
            WHERE recovered_at IS NULL;
        COMMENT ON TABLE freshet.freshness_episode IS 'Times during which a pipeline missed its freshness target.';

        ALTER TABLE freshet.pipeline ADD COLUMN desired_at timestamptz;
        COMMENT ON COLUMN freshet.pipeline.desired_at IS
            'When desired_state was written last, changed or not. Running, and later than the end of the newest '
            'driver: a start that no driver has followed. Null: never, or not since there was this column.';
        -- A trigger, so that a wish that is written by hand counts as well.
        CREATE FUNCTION freshet.note_desired_at() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            NEW.desired_at := clock_timestamp();
            RETURN NEW;
        END $function$;
        CREATE TRIGGER note_desired_at BEFORE UPDATE OF desired_state ON freshet.pipeline
            FOR EACH ROW EXECUTE FUNCTION freshet.note_desired_at();
    """)


def downgrade() -> None:
    op.execute("""
        DROP FUNCTION freshet.note_desired_at() CASCADE; -- its trigger too
        ALTER TABLE freshet.pipeline DROP COLUMN desired_at;
        DROP TABLE freshet.freshness_episode, freshet.validation_result, freshet.validation, freshet.cache,
            freshet.pruned_tuple, freshet.ledger_pruned, freshet.ledger_minute, freshet.reprocessing_run;
        DROP INDEX freshet.batch_unvalidated, freshet.held_tuple_waiting;
        ALTER TABLE freshet.batch DROP COLUMN validation_id;
        ALTER TABLE freshet.held_tuple DROP COLUMN tried_at, DROP COLUMN tried_xmin, DROP COLUMN retry_at;
    """)
