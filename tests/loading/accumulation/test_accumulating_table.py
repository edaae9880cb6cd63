"""What a fact table must be like to be filled in part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from spark_jobs.errors import SchemaMismatchError
from tests.loading.accumulation.fulfilment import DDL, Accumulating

MISFITS = {
    "a part's column is needed": (
        DDL.replace("amount numeric(9, 2)", "amount numeric(9, 2) NOT NULL"),
        "column amount is NOT NULL, but gets payments.amount, which is not there until its part is",
    ),
    "no key": (DDL.replace("PRIMARY KEY", ""), "Add PRIMARY KEY (order_id)"),
    "an id that is stored as something else": (
        DDL.replace("payment_id text", "payment_id character(12)"),
        "column payment_id is part of the event id, which can't be of type character(12)",
    ),
}


@pytest.mark.parametrize(("ddl", "told"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_is_told(clean_warehouse: str, ddl: str, told: str) -> None:
    with pytest.raises(SchemaMismatchError, match=re.escape(told)):
        Accumulating(clean_warehouse, ddl)


@pytest.fixture
def poor_role(clean_warehouse: str) -> Iterator[str]:
    """A role that may insert facts, but not update them."""
    with closing(psycopg2.connect(clean_warehouse)) as owner, owner.cursor() as cursor:
        owner.autocommit = True
        cursor.execute(
            f"{DDL}; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA warehouse TO poor; "
            "GRANT SELECT, INSERT ON warehouse.fulfilment TO poor; GRANT SELECT ON ALL TABLES IN SCHEMA freshet TO poor"
        )
        yield "poor"
        cursor.execute("DROP OWNED BY poor; DROP ROLE poor")


def test_the_right_to_update_is_needed(clean_warehouse: str, poor_role: str) -> None:
    pipeline = Accumulating(clean_warehouse, "SELECT")
    pipeline.query(f"SET ROLE {poor_role}")
    with pytest.raises(SchemaMismatchError, match="SELECT, INSERT, UPDATE on the table"):
        pipeline.describe()
    pipeline.close()
