"""A dimension that changes while its stream runs: customers move to another market segment, and new ones come late."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from psycopg2 import extensions

from spark_jobs.settings import Home
from spark_jobs.workload.landing import land

PIPELINE = "orders"
HOT_CUSTOMERS = 5
COLD_CUSTOMERS = 20
NEW_CUSTOMERS = 8
ORDERS_PER_NEW_CUSTOMER = 5

# TPC-H's market segments, and the one that customers of each move to.
_NEXT_SEGMENT = {
    "AUTOMOBILE": "BUILDING",
    "BUILDING": "FURNITURE",
    "FURNITURE": "HOUSEHOLD",
    "HOUSEHOLD": "MACHINERY",
    "MACHINERY": "AUTOMOBILE",
}

# Far above TPC-H's own keys; the time of the day keeps those of several days apart.
_FIRST_ORDER_KEY = 10**17


@dataclass(frozen=True)
class DimensionChange:
    """What was changed.

    Attributes:
        changed_at: when it was committed, by the warehouse's clock.
        hot: surrogate keys and former segments of customers that many orders name.
        cold: how many that none names were changed, too.
        new: how many customers were added, whose orders had come before them.
    """

    changed_at: datetime
    hot: dict[int, str]
    cold: int
    new: int


def land_orders_of_new_customers(cursor: extensions.cursor, home: Home) -> list[int]:
    """Let orders arrive whose customers are not there yet; the customers' keys."""
    cursor.execute("SELECT max(c_custkey) FROM master.customer")
    ((last,),) = cursor.fetchall()
    customers = list(range(last + 1, last + 1 + NEW_CUSTOMERS))
    first = _FIRST_ORDER_KEY + int(time.time()) * 1000
    orders = [
        _order(first + number, customers[number % len(customers)])
        for number in range(NEW_CUSTOMERS * ORDERS_PER_NEW_CUSTOMER)
    ]
    content = "".join(json.dumps(order) + "\n" for order in orders)
    land(home.landing(PIPELINE), f"new-customers-{first}.json", content.encode())
    return customers


def change_dimension(connection: extensions.connection, new: list[int]) -> DimensionChange:
    """Move hot and cold customers to another segment, and add the new ones; in one transaction.

    Args:
        connection: to the warehouse, in no transaction.
        new: keys of the customers to add.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            WITH hot AS (
                SELECT customer_sk FROM warehouse.fact_orders GROUP BY customer_sk ORDER BY count(*) DESC LIMIT %s
            ), cold AS (
                SELECT customer_sk FROM master.customer AS c
                WHERE NOT EXISTS (SELECT FROM warehouse.fact_orders AS f WHERE f.customer_sk = c.customer_sk) LIMIT %s
            ), former AS (
                SELECT customer_sk, c_mktsegment, is_hot FROM master.customer
                JOIN (SELECT *, true AS is_hot FROM hot UNION ALL SELECT *, false FROM cold) AS chosen
                    USING (customer_sk)
            )
            UPDATE master.customer AS c SET c_mktsegment = %s::jsonb ->> c.c_mktsegment
            FROM former WHERE former.customer_sk = c.customer_sk
            RETURNING c.customer_sk, former.c_mktsegment, is_hot
            """,
            [HOT_CUSTOMERS, COLD_CUSTOMERS, json.dumps(_NEXT_SEGMENT)],
        )
        changed = cursor.fetchall()
        cursor.execute(
            """
            INSERT INTO master.customer
                (c_custkey, c_name, c_address, c_nationkey, c_phone, c_acctbal, c_mktsegment, c_comment)
            SELECT key, 'Customer#' || lpad(key::text, 9, '0'), '', 0, '', 0, 'BUILDING', '' FROM unnest(%s) AS key
            """,
            [new],
        )
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        ((changed_at,),) = cursor.fetchall()
    hot = {key: segment for key, segment, is_hot in changed if is_hot}
    return DimensionChange(changed_at, hot, len(changed) - len(hot), len(new))


def time_to_reach_facts(cursor: extensions.cursor, change: DimensionChange) -> timedelta | None:
    """From the change to the first batch from which on all facts of the hot customers have the new segment.

    None as long as there is none, or a later batch still stores the former one.
    """
    cursor.execute(
        """
        WITH facts AS (
            SELECT closed_at, market_segment = former AS is_old
            FROM warehouse.fact_orders JOIN unnest(%(keys)s, %(segments)s) AS changed(customer_sk, former)
                USING (customer_sk) JOIN freshet.batch USING (batch_no)
            WHERE pipeline = %(pipeline)s AND closed_at > %(changed_at)s
        )
        SELECT min(closed_at) FROM facts
        WHERE NOT is_old AND closed_at > (SELECT coalesce(max(closed_at), %(changed_at)s) FROM facts WHERE is_old)
        """,
        {
            "keys": list(change.hot),
            "segments": list(change.hot.values()),
            "pipeline": PIPELINE,
            "changed_at": change.changed_at,
        },
    )
    ((reached_at,),) = cursor.fetchall()
    return reached_at - change.changed_at if reached_at is not None else None


def _order(key: int, customer: int) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "o_orderkey": key,
        "o_custkey": customer,
        "o_orderstatus": "O",
        "o_totalprice": 100.25,
        "o_orderdate": now.date().isoformat(),
        "o_orderpriority": "3-MEDIUM",
        "o_clerk": "Clerk#000000001",
        "o_shippriority": 0,
        "o_comment": "of a new customer",
        "ordered_at": now.isoformat(timespec="microseconds"),
    }
