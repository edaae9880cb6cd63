"""Sketches of event ids in the ledger: what each load owes the warehouse, to be compared with what is stored.

Revision ID: 0016
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE freshet.id_sketch (
            sketch_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            pipeline   text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
            batch_no   bigint NOT NULL,
            sketch     bytea,
            dropped    text[] NOT NULL DEFAULT '{}'
        );
        CREATE INDEX id_sketch_of_batch ON freshet.id_sketch (pipeline, batch_no);
        COMMENT ON TABLE freshet.id_sketch IS
            'The event ids that have to be stored with a number, as a fact or held, as sums of linear sketches '
            '(spark_jobs/sketches/id_sketch.py): of a number there may be several. A batch adds its own when it is '
            'closed; a reprocessing run takes what it makes facts of from the batch that held it.';
        COMMENT ON COLUMN freshet.id_sketch.batch_no IS
            'Batch or reprocessing run; 0: all those together that retention has deleted from the ledger.';
        COMMENT ON COLUMN freshet.id_sketch.sketch IS 'Null: not known what arrived.';
        COMMENT ON COLUMN freshet.id_sketch.dropped IS
            'Event ids that came again, and were dropped because they were stored: those of the least hash codes.';

        ALTER TABLE freshet.batch_part ADD COLUMN sketch bytea, ADD COLUMN dropped text[] NOT NULL DEFAULT '{}';
        COMMENT ON COLUMN freshet.batch_part.sketch IS 'Of the event ids that it stored.';

        ALTER TABLE freshet.pipeline ADD COLUMN sketched_after bigint NOT NULL DEFAULT 0;
        COMMENT ON COLUMN freshet.pipeline.sketched_after IS
            'Batches and reprocessing runs up to this number began before there were sketches of event ids.';
        UPDATE freshet.pipeline SET sketched_after = greatest(
            (SELECT coalesce(max(batch_no), 0) FROM freshet.batch),
            (SELECT coalesce(max(batch_no), 0) FROM freshet.reprocessing_run));
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE freshet.pipeline DROP COLUMN sketched_after;
        ALTER TABLE freshet.batch_part DROP COLUMN sketch, DROP COLUMN dropped;
        DROP TABLE freshet.id_sketch;
    """)
