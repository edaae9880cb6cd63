"""When something of a source was lost; how many partitions of topics are unread, beside files.

Revision ID: 0021
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.driver ADD COLUMN unread_partitions bigint;
        COMMENT ON COLUMN freshet.driver.unread_partitions IS
            'Partitions of topics that had records then that were in no batch.';

        ALTER TABLE freshet.source_range ADD COLUMN lost_at timestamptz;
        COMMENT ON COLUMN freshet.source_range.lost_at IS
            'When it was given up, or found to be gone; null where it was not, or by a former version.';
        CREATE FUNCTION freshet.note_loss() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            IF TG_OP = 'INSERT' OR OLD.state <> 'lost' THEN
                NEW.lost_at := clock_timestamp();
            END IF;
            RETURN NEW;
        END $function$;
        CREATE TRIGGER note_loss BEFORE INSERT OR UPDATE OF state ON freshet.source_range
            FOR EACH ROW WHEN (NEW.state = 'lost') EXECUTE FUNCTION freshet.note_loss();
    """)


def downgrade() -> None:
    op.execute("""
        DROP FUNCTION freshet.note_loss() CASCADE; -- its trigger too
        ALTER TABLE freshet.source_range DROP COLUMN lost_at;
        ALTER TABLE freshet.driver DROP COLUMN unread_partitions;
    """)
