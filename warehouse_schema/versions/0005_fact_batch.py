"""The load that stored a fact, as a column of the shipped fact tables.

Revision ID: 0005
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = ("fact_orders", "fact_order_lines")


def upgrade() -> None:
    for table in TABLES:
        # Facts lie in the table in the order of their batches, so a BRIN index finds a batch's; it costs loading next
        # to nothing. Large ranges (8 MiB): the server is asked to summarize each, and logs it where it gets behind.
        op.execute(f"""
            ALTER TABLE warehouse.{table} ADD COLUMN batch_no bigint;
            CREATE INDEX {table}_batch ON warehouse.{table}
                USING brin (batch_no) WITH (autosummarize = on, pages_per_range = 1024);
            COMMENT ON COLUMN warehouse.{table}.batch_no IS
                'Batch or reprocessing run of the ledger that stored the fact; null: stored before there was this.';
        """)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE warehouse.{table} DROP COLUMN batch_no")
