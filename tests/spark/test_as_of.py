"""Point-in-time lookups: every event finds the version of its master data that was valid when it happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition

HOURS = 10
KEYS = 500

# Each customer lived in a city for an hour after another, from hour 1 on: hour 0 knows no version. The last version is
# valid still, but for customers whose number ends in 9: those left at hour 8.
TABLES = f"""
    CREATE TABLE shop.resident (
        id bigint, valid_from timestamptz, valid_to timestamptz, sk bigint NOT NULL, city text,
        PRIMARY KEY (id, valid_from)
    );
    INSERT INTO shop.resident
    SELECT id, '2026-03-01Z'::timestamptz + hour * interval '1 h',
        CASE WHEN hour < {HOURS} - 1 THEN '2026-03-01Z'::timestamptz + (hour + 1) * interval '1 h' END,
        id * 100 + hour, 'city ' || hour
    FROM generate_series(1, {KEYS}) AS id, generate_series(1, {HOURS} - 1) AS hour
    WHERE id % 10 <> 9 OR hour < 8
    ORDER BY hour, id;
"""
RESIDENT = {
    "relation": "shop.resident",
    "on": {"customer": "id"},
    "fetch": {"customer_sk": "sk", "city": "city"},
    "as_of": "event_time",
    "validity": ["valid_from", "valid_to"],
    "memory": "1MB",
}


def visit(number: int, **changes: Any) -> dict[str, Any]:
    """An event in one of the ten hours, of a customer who comes again in other hours."""
    time = f"2026-03-01T{number // 7 % HOURS:02}:{number % 60:02}:00Z"
    return sale(number, customer=number % (KEYS + 20) + 1, sold_at=time) | changes


def visited(numbers: Iterable[int]) -> dict[int, int]:
    """Event -> surrogate key of the version that was valid; events without one left out."""
    found = {}
    for number in numbers:
        customer, hour = number % (KEYS + 20) + 1, number // 7 % HOURS
        if customer <= KEYS and hour >= 1 and (customer % 10 != 9 or hour < 8):
            found[number] = customer * 100 + hour
    return found


@pytest.fixture
def residents(shop: Shop) -> Shop:
    query(shop.url, TABLES)
    shop.define(lookups=[RESIDENT])
    shop.one_file_a_batch()
    return shop


def facts(shop: Shop) -> dict[int, int]:
    return dict(query(shop.url, "SELECT sale_id, customer_sk FROM shop.fact_sales"))


def reasons(shop: Shop) -> dict[str, int]:
    return dict(query(shop.url, "SELECT reason, count(*) FROM freshet.unmatched GROUP BY reason"))


@pytest.mark.parametrize(
    "algorithm",
    ["auto", "cached_hybrid_join", "cached_mesh_join", "batched_index_nested_loop", "semi_streamed_index_join"],
)
def test_each_event_finds_the_version_of_its_time(residents: Shop, algorithm: str) -> None:
    residents.define(lookups=[RESIDENT | {"algorithm": algorithm}])
    for part in range(3):
        land(residents.folder, f"part-{part}", (visit(n) for n in range(part * 1000, part * 1000 + 1000)))
    residents.load()
    expected = visited(range(3000))
    assert facts(residents) == expected
    unknown = sum(n % (KEYS + 20) + 1 > KEYS for n in range(3000))
    assert reasons(residents) == {
        "no tuple of shop.resident has the key in customer": unknown,
        "no version of shop.resident with the key in customer was valid at the event's time in sold_at": (
            3000 - len(expected) - unknown
        ),
    }
    hits = query(residents.url, "SELECT sum((statistics->>'front_stage_hits')::bigint) FROM freshet.batch")[0][0]
    assert (hits > 0) == (algorithm == "auto" or algorithm.startswith("cached_"))
    assert residents.verify().holds


def test_a_hot_tuple_gives_late_events_the_version_of_their_time(residents: Shop) -> None:
    new = [visit(n, customer=7, sold_at="2026-03-01T09:30:00Z") for n in range(200)]
    late = [visit(n, customer=7, sold_at=f"2026-03-01T0{n % 9 + 1}:00:00Z") for n in range(200, 400)]
    land(residents.folder, "part-0", new)
    land(residents.folder, "part-1", late)
    land(residents.folder, "part-2", [visit(400, customer=7, sold_at="2026-03-01T00:59:59.999999Z")])
    residents.load()
    stored = facts(residents)
    assert {stored[n] for n in range(200)} == {709}
    assert [stored[n] for n in range(200, 400)] == [700 + n % 9 + 1 for n in range(200, 400)]
    assert list(reasons(residents).values()) == [1]
    # Hot from the first batch on, or if that was earlier from the second one.
    batches = "SELECT (statistics->>'front_stage_hits')::bigint, facts + unmatched FROM freshet.batch ORDER BY batch_no"
    _, *others = query(residents.url, batches)
    assert [hits for hits, _ in others] == [count for _, count in others]
    assert residents.verify().holds


def test_an_event_without_time_never_finds_a_version(residents: Shop) -> None:
    land(residents.folder, "part-0", [visit(1, customer=7, sold_at="2026-03-01T05:00:00Z")])
    land(residents.folder, "part-1", [visit(n, customer=n, sold_at=None) for n in (7, 8)])  # one hot, one not
    residents.load()
    rejected = query(residents.url, "SELECT reason, count(*) FROM freshet.rejected GROUP BY reason")
    never = "a key that can never match: sold_at is null, so that no version in shop.resident can be told"
    assert rejected == [(never, 2)]
    assert residents.verify().holds


def test_defaults_stand_in_where_no_version_was_valid(residents: Shop) -> None:
    default = {"default": {"customer_sk": -1, "city": "nowhere"}}
    residents.define(lookups=[RESIDENT | {"on_unmatched": default}])
    for part in range(2):
        land(residents.folder, f"part-{part}", (visit(n) for n in range(part * 1000, part * 1000 + 1000)))
    residents.load()
    found = visited(range(2000))
    assert facts(residents) == {n: found.get(n, -1) for n in range(2000)}
    cities = query(residents.url, "SELECT DISTINCT city FROM shop.fact_sales WHERE customer_sk = -1")
    assert cities == [("nowhere",)]
    assert residents.verify().holds


@pytest.mark.parametrize("algorithm", ["auto", "batched_index_nested_loop"])
def test_versions_with_text_and_composite_keys_beside_a_plain_lookup(residents: Shop, algorithm: str) -> None:
    query(
        residents.url,
        """
        CREATE TABLE shop.price (
            code text, size integer, valid_from date, valid_to timestamp, sk bigint NOT NULL, price numeric(8, 2),
            UNIQUE (code, valid_from, size)
        );
        CREATE INDEX ON shop.price (code, size);
        INSERT INTO shop.price
        SELECT 'article-' || n % 30, n / 30, '2026-03-01'::date + day, '2026-03-02'::timestamp + day * interval '1 d',
            n * 10 + day, n
        FROM generate_series(0, 299) AS n, generate_series(0, 3) AS day;
        CREATE TABLE shop.fact_items (
            sale_id bigint PRIMARY KEY, customer_sk bigint NOT NULL, price_sk bigint NOT NULL, price numeric(8, 2)
        );
        """,
    )
    customer = sales_definition(residents.folder)["lookups"][0] | {"fetch": {"customer_sk": "sk"}}
    price = RESIDENT | {
        "relation": "shop.price",
        "on": {"article": "code", "size": "size"},
        "fetch": {"price_sk": "sk", "price": "price"},
        "algorithm": algorithm,
    }
    source = sales_definition(residents.folder)["source"] | {
        "schema": "sale_id bigint, customer bigint, article string, size int, sold_at timestamp"
    }
    columns = {name: name for name in ("sale_id", "customer_sk", "price_sk", "price")}
    residents.define(source=source, lookups=[customer, price], fact={"table": "shop.fact_items", "columns": columns})

    def bought(n: int) -> dict[str, Any]:
        time = f"2026-03-0{n % 5 + 1}T{n % 24:02}:00:00Z"
        return sale(n, customer=n % 2000 + 1, article=f"article-{n % 30}", size=n // 30 % 10, sold_at=time)

    for part in range(2):
        land(residents.folder, f"part-{part}", (bought(n) for n in range(part * 600, part * 600 + 600)))
    # What can never match here is rejected, whatever the other lookup finds: first nothing, then a customer.
    never = [{"customer": 9_999, "article": None}, {"size": None}, {"sold_at": None}]
    land(residents.folder, "part-2", [bought(1200 + n) | changes for n, changes in enumerate(never)])
    residents.load()
    rejected = "SELECT reason FROM freshet.rejected WHERE relation = 'shop.price' ORDER BY event_id"
    assert [reason.partition(",")[0] for (reason,) in query(residents.url, rejected)] == [
        f"a key that can never match: {column} is null" for column in ("article", "size", "sold_at")
    ]
    found = dict(query(residents.url, "SELECT sale_id, price_sk FROM shop.fact_items"))
    # The fifth day has no price.
    assert found == {n: n % 300 * 10 + n % 5 for n in range(1200) if n % 5 < 4}
    assert residents.verify().holds
