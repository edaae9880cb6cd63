"""Changes of master data, noted with the former values of all rows that really differ, whatever changed them.

Revision ID: 0008
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.relation_change
            ADD COLUMN keys jsonb, ADD COLUMN formers jsonb,
            ADD CHECK ((keys IS NULL) = (formers IS NULL)),
            ADD CHECK (keys IS NULL OR kind IN ('truncate', 'bulk'));
        COMMENT ON TABLE freshet.relation_change IS
            'Changes of the relations that pipelines look up. A statement that changes very many rows is noted as '
            'bulk, a row for each thousand of them.';
        COMMENT ON COLUMN freshet.relation_change.former IS
            'Of an update or a delete: the used columns of the row as they were before.';
        COMMENT ON COLUMN freshet.relation_change.keys IS
            'Of a truncate or a bulk: the keys that rows were inserted for; null: it is not known what has changed.';
        COMMENT ON COLUMN freshet.relation_change.formers IS
            'Of a truncate or a bulk: the rows as they were before, as in former; null: it is not known.';
        -- Triggers see nothing of virtual columns (PostgreSQL 18); they used to note them as null.
        UPDATE freshet.relation_change SET former = former - virtual.names
        FROM (
            SELECT n.nspname || '.' || c.relname AS relation, array_agg(a.attname::text) AS names
            FROM pg_attribute AS a
                JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE a.attgenerated = 'v' AND NOT a.attisdropped GROUP BY 1
        ) AS virtual
        WHERE relation_change.relation = virtual.relation AND former ?| virtual.names;

        -- Runs as its owner, so that who writes master data needs no rights in this schema. A table belongs to somebody
        -- else, who may define types, casts and operators: none of them is called. Columns of other types than
        -- PostgreSQL's own are not noted, and rows are compared by their images.
        CREATE OR REPLACE FUNCTION freshet.note_relation_change() RETURNS trigger
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
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.relation_change DROP COLUMN keys, DROP COLUMN formers;
        DROP FUNCTION freshet.note_relation_change() CASCADE; -- its triggers too: they are made anew
    """)
    scripts = op.get_context().script
    assert scripts is not None
    scripts.get_revision("0004").module.make_function()
