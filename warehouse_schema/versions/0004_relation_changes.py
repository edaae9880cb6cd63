"""Changes of master data, noted by triggers.

Revision ID: 0004
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_table()
    make_function()


def _make_table() -> None:
    op.execute("""
        CREATE TABLE freshet.relation_change (
            change_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            relation    text COLLATE "C" NOT NULL,
            xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
            changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            kind        text NOT NULL CHECK (kind IN ('insert', 'update', 'delete', 'truncate', 'bulk')),
            key         jsonb,
            former      jsonb,
            CHECK ((key IS NULL) = (kind IN ('truncate', 'bulk'))),
            CHECK ((former IS NULL) = (kind NOT IN ('update', 'delete')))
        );
        CREATE INDEX relation_change_of_relation ON freshet.relation_change (relation, xid, changed_at);
        -- The newest change that can make a match: among weeks of updates there may be no insert.
        CREATE INDEX relation_change_new_rows ON freshet.relation_change (relation, xid)
            WHERE kind IN ('insert', 'bulk');
        COMMENT ON TABLE freshet.relation_change IS
            'Changes of the relations that pipelines look up. Statements that change very many rows are one row, bulk.';
        COMMENT ON COLUMN freshet.relation_change.change_no IS
            'Numbered when changed, not when committed: a reader remembers a pg_snapshot, never the highest number.';
        COMMENT ON COLUMN freshet.relation_change.xid IS
            'Top-level transaction: pg_visible_in_snapshot(xid, noticed) says whether a reader has seen the change.';
        COMMENT ON COLUMN freshet.relation_change.changed_at IS 'When the statement ran; it was committed later.';
        COMMENT ON COLUMN freshet.relation_change.key IS
            'Column: value, of the columns that lookups find the row by. A changed key is a delete and an insert.';
        COMMENT ON COLUMN freshet.relation_change.former IS 'The whole row as it was before an update or a delete.';
    """)


def make_function() -> None:
    """Make the function that triggers on master data run; a later revision goes back to it."""
    op.execute("""
        -- Runs as its owner: who writes master data needs no rights in this schema.
        CREATE FUNCTION freshet.note_relation_change() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
        #variable_conflict use_column
        DECLARE
            most_rows CONSTANT integer := 10000;
            -- A partition notes its changes under the name of the table that is looked up.
            relation_name CONSTANT text := TG_ARGV[0];
            key_columns CONSTANT text[] := TG_ARGV[1 : TG_NARGS - 1];
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                INSERT INTO freshet.relation_change (relation, kind) VALUES (relation_name, 'truncate');
                RETURN NULL;
            END IF;

            -- A transition table is in reach only where its trigger has it, so each kind of statement has queries of
            -- its own. None of them joins: their plans are kept, and must suit one row as well as ten thousand.
            IF TG_OP = 'INSERT' THEN
                PERFORM FROM present_rows OFFSET most_rows LIMIT 1;
                IF NOT FOUND THEN
                    INSERT INTO freshet.relation_change (relation, kind, key)
                    SELECT relation_name, 'insert', keys.key
                    FROM (SELECT to_jsonb(present_rows) AS content FROM present_rows) AS changed,
                        LATERAL (SELECT jsonb_object_agg(name, content -> name) AS key
                                 FROM unnest(key_columns) AS name) AS keys;
                    RETURN NULL;
                END IF;
            ELSIF TG_OP = 'DELETE' THEN
                PERFORM FROM former_rows OFFSET most_rows LIMIT 1;
                IF NOT FOUND THEN
                    INSERT INTO freshet.relation_change (relation, kind, key, former)
                    SELECT relation_name, 'delete', keys.key, content
                    FROM (SELECT to_jsonb(former_rows) AS content FROM former_rows) AS changed,
                        LATERAL (SELECT jsonb_object_agg(name, content -> name) AS key
                                 FROM unnest(key_columns) AS name) AS keys;
                    RETURN NULL;
                END IF;
            ELSE
                PERFORM FROM former_rows OFFSET most_rows LIMIT 1;
                IF NOT FOUND THEN
                    INSERT INTO freshet.relation_change (relation, kind, key, former)
                    SELECT relation_name,
                        CASE WHEN is_present THEN 'insert' WHEN key_stays THEN 'update' ELSE 'delete' END,
                        key,
                        CASE WHEN NOT is_present THEN content END
                    FROM (
                        SELECT keys.key, content, is_present,
                            bool_or(is_present) OVER same_key AS key_stays,
                            bool_or(NOT is_present) OVER same_key AS key_was_there
                        FROM (
                            SELECT to_jsonb(former_rows) AS content, false AS is_present FROM former_rows
                            UNION ALL
                            SELECT to_jsonb(present_rows), true FROM present_rows
                        ) AS changed,
                            LATERAL (SELECT jsonb_object_agg(name, content -> name) AS key
                                     FROM unnest(key_columns) AS name) AS keys
                        WINDOW same_key AS (PARTITION BY keys.key)
                    ) AS compared
                    WHERE NOT is_present OR NOT key_was_there;
                    RETURN NULL;
                END IF;
            END IF;
            INSERT INTO freshet.relation_change (relation, kind) VALUES (relation_name, 'bulk');
            RETURN NULL;
        END $function$;
        REVOKE ALL ON FUNCTION freshet.note_relation_change() FROM PUBLIC;
    """)


def downgrade() -> None:
    op.execute("""
        DROP FUNCTION IF EXISTS freshet.note_relation_change() CASCADE; -- its triggers too
        DROP TABLE freshet.relation_change;
    """)
