"""Fact tables of the shipped pipelines of several streams: auctions with their bids, orders with what follows them.

Revision ID: 0014
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Payment and shipment are filled in later, in place: rows leave room in their page for their next versions, and
    # no index has any of the columns that change, so that none of the updates touches an index (HOT).
    op.execute("""
        CREATE TABLE warehouse.fact_auction_bids (
            auction_id    bigint NOT NULL,
            bid_id        bigint NOT NULL,
            item_name     text NOT NULL,
            category      integer NOT NULL,
            seller        bigint NOT NULL,
            bidder        bigint NOT NULL,
            price         bigint NOT NULL,
            reserve       bigint NOT NULL,
            channel       text NOT NULL,
            opened_at     timestamptz NOT NULL,
            expires_at    timestamptz NOT NULL,
            bid_at        timestamptz NOT NULL,
            completed_at  timestamptz NOT NULL,
            batch_no      bigint,
            PRIMARY KEY (auction_id, bid_id)
        );
        COMMENT ON COLUMN warehouse.fact_auction_bids.price IS 'In cents, as is reserve.';

        CREATE TABLE warehouse.fact_fulfilment (
            order_key       bigint PRIMARY KEY,
            customer_sk     bigint NOT NULL,
            market_segment  text NOT NULL,
            total_price     numeric(15, 2) NOT NULL,
            order_priority  varchar(15) NOT NULL,
            ordered_at      timestamptz NOT NULL,
            payment_id      bigint,
            amount_paid     numeric(15, 2),
            payment_method  text,
            paid_at         timestamptz,
            shipment_id     bigint,
            carrier         text,
            shipped_at      timestamptz,
            batch_no        bigint
        ) WITH (fillfactor = 50);
    """)
    for table in ("fact_auction_bids", "fact_fulfilment"):
        op.execute(f"""
            CREATE INDEX {table}_batch ON warehouse.{table}
                USING brin (batch_no) WITH (autosummarize = on, pages_per_range = 1024);
            COMMENT ON COLUMN warehouse.{table}.batch_no IS
                'Batch or reprocessing run of the ledger that stored the fact.';
        """)


def downgrade() -> None:
    op.execute("DROP TABLE warehouse.fact_fulfilment, warehouse.fact_auction_bids")
