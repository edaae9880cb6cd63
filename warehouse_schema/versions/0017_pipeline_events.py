"""What the page shows and nothing else keeps: changes of definitions, rebuilds of caches, lag by partition.

Revision ID: 0017
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
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

        ALTER TABLE freshet.driver ADD COLUMN partitions jsonb;
        COMMENT ON COLUMN freshet.driver.partitions IS
            'Of a topic: position and end of its partitions when it looked at them last; null: of other sources.';

        -- Triggers, so that what is written by hand counts as well.
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

        CREATE FUNCTION freshet.note_rebuild() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            INSERT INTO freshet.pipeline_event (pipeline, kind, detail) SELECT NEW.pipeline, 'rebuild', made
            FROM (VALUES
                (NEW.rebuilt_at > coalesce(OLD.rebuilt_at, '-infinity'), 'hot tuples of ' || NEW.relation),
                (NEW.snapshot_at > coalesce(OLD.snapshot_at, '-infinity'), 'snapshot of ' || NEW.relation)
            ) AS rebuilt (is_new, made) WHERE is_new;
            RETURN NULL;
        END $function$;
        CREATE TRIGGER note_rebuild AFTER UPDATE OF rebuilt_at, snapshot_at ON freshet.cache
            FOR EACH ROW WHEN ((OLD.rebuilt_at, OLD.snapshot_at) IS DISTINCT FROM (NEW.rebuilt_at, NEW.snapshot_at))
            EXECUTE FUNCTION freshet.note_rebuild();
    """)


def downgrade() -> None:
    op.execute("""
        DROP FUNCTION freshet.note_definition() CASCADE; -- its trigger too
        DROP FUNCTION freshet.note_rebuild() CASCADE;
        DROP TABLE freshet.pipeline_event;
        ALTER TABLE freshet.driver DROP COLUMN partitions;
    """)
