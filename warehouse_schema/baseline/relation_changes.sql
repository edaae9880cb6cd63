-- Changes of master data, noted by triggers, and what each lookup's front stage has seen of them.

CREATE TABLE freshet.relation_change (
    change_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation    text COLLATE "C" NOT NULL,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind        text NOT NULL CHECK (kind IN ('insert', 'update', 'delete', 'truncate', 'bulk')),
    key         jsonb,
    former      jsonb,
    keys        jsonb,
    formers     jsonb,
    former_xid  xid8,
    CHECK ((key IS NULL) = (kind IN ('truncate', 'bulk'))),
    CHECK ((former IS NULL) = (kind NOT IN ('update', 'delete'))),
    CHECK ((keys IS NULL) = (formers IS NULL)),
    CHECK (keys IS NULL OR kind IN ('truncate', 'bulk'))
);
CREATE INDEX relation_change_of_relation ON freshet.relation_change (relation, xid, changed_at);
-- The newest change that can make a match: among weeks of updates there may be no insert.
CREATE INDEX relation_change_new_rows ON freshet.relation_change (relation, xid) WHERE kind IN ('insert', 'bulk');
COMMENT ON TABLE freshet.relation_change IS
    'Changes of the relations that pipelines look up. A statement that changes very many rows is noted as '
    'bulk, a row for each thousand of them.';
COMMENT ON COLUMN freshet.relation_change.change_no IS
    'Numbered when changed, not when committed: a reader remembers a pg_snapshot, never the highest number.';
COMMENT ON COLUMN freshet.relation_change.xid IS
    'Top-level transaction: pg_visible_in_snapshot(xid, noticed) says whether a reader has seen the change.';
COMMENT ON COLUMN freshet.relation_change.changed_at IS 'When the statement ran; it was committed later.';
COMMENT ON COLUMN freshet.relation_change.key IS
    'Column: value, of the columns that lookups find the row by. A changed key is a delete and an insert.';
COMMENT ON COLUMN freshet.relation_change.former IS
    'Of an update or a delete: the used columns of the row as they were before.';
COMMENT ON COLUMN freshet.relation_change.keys IS
    'Of a truncate or a bulk: the keys that rows were inserted for; null: it is not known what has changed.';
COMMENT ON COLUMN freshet.relation_change.formers IS
    'Of a truncate or a bulk: the rows as they were before, as in former; null: it is not known.';
COMMENT ON COLUMN freshet.relation_change.former_xid IS
    'The transaction in the cluster that the row was dumped from; xid is 2 then, which is before all others.';

-- Runs as its owner, so that who writes master data needs no rights in this schema. A table belongs to somebody
-- else, who may define types, casts and operators: none of them is called. Columns of other types than
-- PostgreSQL's own are not noted, and rows are compared by their images.
CREATE FUNCTION freshet.note_relation_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
        DECLARE
            most_rows CONSTANT integer := 10000; -- noted one by one
            -- A partition notes its changes under the name of the table that is looked up.
            relation_name CONSTANT text := TG_ARGV[0];
            -- Key columns, an empty name, the other columns that are used. Older triggers name key columns only.
            arguments CONSTANT text[] := TG_ARGV[1 : TG_NARGS - 1];
            key_count CONSTANT integer := coalesce(array_position(arguments, '') - 1, cardinality(arguments));
            used CONSTANT text[] := array_remove(arguments, '');
            row_count integer;
            has_keys boolean; -- whether the key's columns, and all used ones, can be noted
            has_all boolean;
            columns text; -- SQL: those that can be noted, and those of the key
            key_columns text;
            same_key text; -- SQL: two rows have one key
            former_row jsonb; -- the only one, before and after; of it the used columns, and the key
            present_row jsonb;
            former jsonb := '{}';
            present jsonb := '{}';
            former_key jsonb;
            present_key jsonb;
            name text;
            position integer := 0;
            changes text; -- SQL: kind, key, former
        BEGIN
            -- A transition table is in reach only where its trigger has it.
            IF TG_OP IN ('INSERT', 'UPDATE') THEN
                SELECT count(*) INTO row_count FROM (SELECT FROM present_rows LIMIT most_rows + 1) AS counted;
            ELSIF TG_OP = 'DELETE' THEN
                SELECT count(*) INTO row_count FROM (SELECT FROM former_rows LIMIT most_rows + 1) AS counted;
            END IF;
            IF row_count = 0 THEN
                RETURN NULL;
            END IF;

            -- Most statements change one row, and it takes longer to plan a query than to run it: these plans are kept.
            -- JSON of a whole row calls casts of types that are not PostgreSQL's own; virtual columns are null in it.
            IF row_count = 1 AND NOT EXISTS (
                SELECT FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
                WHERE attrelid = TG_RELID AND attnum > 0
                    AND (typnamespace <> 'pg_catalog'::regnamespace OR attgenerated = 'v')
            ) THEN
                IF TG_OP = 'UPDATE' THEN
                    SELECT to_jsonb(former_rows), to_jsonb(present_rows) INTO former_row, present_row
                    FROM former_rows, present_rows;
                ELSIF TG_OP = 'DELETE' THEN
                    SELECT to_jsonb(former_rows) INTO former_row FROM former_rows;
                ELSE
                    SELECT to_jsonb(present_rows) INTO present_row FROM present_rows;
                END IF;
                IF coalesce(present_row, former_row) ?& used[: key_count] THEN
                    FOREACH name IN ARRAY used LOOP
                        position := position + 1;
                        IF coalesce(present_row, former_row) ? name THEN
                            former := former || jsonb_build_object(name, former_row -> name);
                            present := present || jsonb_build_object(name, present_row -> name);
                        END IF;
                        IF position = key_count THEN
                            former_key := former;
                            present_key := present;
                        END IF;
                    END LOOP;
                    IF former = present AND former ?& used AND key_count < cardinality(arguments) THEN
                        RETURN NULL;
                    END IF;
                    IF former_row IS NOT NULL THEN
                        INSERT INTO freshet.relation_change (relation, kind, key, former) VALUES (
                            relation_name, CASE WHEN former_key = present_key THEN 'update' ELSE 'delete' END,
                            former_key, former);
                    END IF;
                    IF present_row IS NOT NULL AND former_key <> present_key THEN
                        INSERT INTO freshet.relation_change (relation, kind, key)
                        VALUES (relation_name, 'insert', present_key);
                    END IF;
                    RETURN NULL;
                END IF;
            END IF;

            -- Columns may have been renamed or dropped since the trigger was made. Of a domain the type below counts.
            SELECT count(*) FILTER (WHERE place <= key_count AND base.typname IN (
                    'int2', 'int4', 'int8', 'date', 'text', 'varchar', 'bpchar', 'uuid')) = key_count,
                count(*) = cardinality(used) AND key_count < cardinality(arguments),
                string_agg(format('%I', attname), ', '),
                string_agg(format('%I', attname), ', ') FILTER (WHERE place <= key_count),
                string_agg(format('"the row".%1$I = another.%1$I', attname), ' AND ')
                    FILTER (WHERE place <= key_count)
            INTO has_keys, has_all, columns, key_columns, same_key
            FROM unnest(used) WITH ORDINALITY AS wanted (used_name, place)
                JOIN pg_attribute ON attrelid = TG_RELID AND attname = used_name::name
                    AND NOT attisdropped AND attgenerated <> 'v'
                JOIN pg_type AS declared ON declared.oid = atttypid
                JOIN pg_type AS base ON base.typnamespace = 'pg_catalog'::regnamespace AND base.oid = CASE
                    WHEN declared.typtype <> 'd' THEN declared.oid
                    ELSE (
                        WITH RECURSIVE below (type) AS (
                            SELECT declared.typbasetype
                            UNION ALL SELECT typbasetype FROM below JOIN pg_type ON oid = type WHERE typtype = 'd'
                        )
                        SELECT type FROM below JOIN pg_type ON oid = type WHERE typtype <> 'd')
                    END;
            IF TG_OP = 'TRUNCATE' THEN
                has_keys := has_keys AND TG_WHEN = 'BEFORE' AND has_schema_privilege(
                        (SELECT relnamespace FROM pg_class WHERE oid = TG_RELID), 'USAGE')
                    AND has_table_privilege(TG_RELID, 'SELECT') AND NOT row_security_active(TG_RELID);
            END IF;
            IF NOT has_keys THEN
                INSERT INTO freshet.relation_change (relation, kind)
                VALUES (relation_name, CASE TG_OP WHEN 'TRUNCATE' THEN 'truncate' ELSE 'bulk' END);
                RETURN NULL;
            END IF;

            IF TG_OP = 'INSERT' THEN
                changes := format($sql$
                    SELECT 'insert' AS kind, to_jsonb("the key") AS key, NULL::jsonb AS former
                    FROM (SELECT %s FROM present_rows AS r) AS "the key"
                $sql$, key_columns);
            ELSIF TG_OP = 'DELETE' THEN
                changes := format($sql$
                    SELECT 'delete' AS kind, to_jsonb("the key") AS key, to_jsonb("the row") AS former
                    FROM (SELECT %s FROM former_rows AS r) AS "the row" CROSS JOIN LATERAL (SELECT %s) AS "the key"
                $sql$, columns, key_columns);
            ELSIF TG_OP = 'TRUNCATE' THEN
                changes := format($sql$
                    SELECT 'delete' AS kind, to_jsonb("the key") AS key, to_jsonb("the row") AS former
                    FROM (SELECT %s FROM ONLY %I.%I AS r) AS "the row" CROSS JOIN LATERAL (SELECT %s) AS "the key"
                $sql$, columns, TG_TABLE_SCHEMA, TG_TABLE_NAME, key_columns);
            ELSE
                -- Rows that are there before and after are left out. A key that loses a row and gets one is updated.
                changes := format($sql$
                    WITH gone AS (
                        SELECT "the row".* FROM (SELECT %1$s FROM former_rows AS r) AS "the row" WHERE NOT EXISTS (
                            SELECT FROM (SELECT %1$s FROM present_rows AS r) AS another WHERE %3$s AND %4$s)
                    ), come AS (
                        SELECT "the row".* FROM (SELECT %1$s FROM present_rows AS r) AS "the row" WHERE NOT EXISTS (
                            SELECT FROM (SELECT %1$s FROM former_rows AS r) AS another WHERE %3$s AND %4$s)
                    )
                    SELECT CASE WHEN EXISTS (SELECT FROM come AS another WHERE %3$s) THEN 'update' ELSE 'delete' END
                        AS kind, to_jsonb("the key") AS key, to_jsonb("the row") AS former
                    FROM gone AS "the row" CROSS JOIN LATERAL (SELECT %2$s) AS "the key"
                    UNION ALL
                    SELECT 'insert', to_jsonb("the key"), NULL
                    FROM come AS "the row" CROSS JOIN LATERAL (SELECT %2$s) AS "the key"
                    WHERE NOT EXISTS (SELECT FROM gone AS another WHERE %3$s)
                $sql$, columns, key_columns, same_key, CASE WHEN has_all THEN '"the row" *= another' ELSE 'false' END);
            END IF;

            IF row_count <= most_rows THEN
                EXECUTE format($sql$
                    INSERT INTO freshet.relation_change (relation, kind, key, former)
                    SELECT $1, kind, key, former FROM (%s) AS changes
                $sql$, changes) USING relation_name;
            ELSE
                EXECUTE format($sql$
                    WITH changes AS MATERIALIZED (%s),
                    noted (one_by_one) AS (SELECT $2 = 'bulk' AND NOT EXISTS (SELECT FROM changes OFFSET $3))
                    INSERT INTO freshet.relation_change (relation, kind, key, former, keys, formers)
                    SELECT $1, kind, key, former, NULL, NULL FROM changes WHERE (SELECT one_by_one FROM noted)
                    UNION ALL
                    SELECT $1, $2, NULL, NULL, coalesce(jsonb_agg(key) FILTER (WHERE former IS NULL), '[]'),
                        coalesce(jsonb_agg(former) FILTER (WHERE former IS NOT NULL), '[]')
                    FROM (SELECT key, former, (row_number() OVER () - 1) / 1000 AS thousand FROM changes) AS numbered
                    WHERE NOT (SELECT one_by_one FROM noted) GROUP BY thousand
                $sql$, changes)
                USING relation_name, CASE TG_OP WHEN 'TRUNCATE' THEN 'truncate' ELSE 'bulk' END, most_rows;
            END IF;
            RETURN NULL;
        END $function$;
REVOKE ALL ON FUNCTION freshet.note_relation_change() FROM PUBLIC;

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

-- A trigger, so that what is written by hand counts as well.
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
