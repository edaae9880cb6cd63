"""The whole way of a tuple, from a landed file to its fact, in a real Spark session and a real warehouse."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.definition import ALGORITHMS
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition

PLAIN_JOIN = """
    SELECT count(*) FROM shop.fact_sales f JOIN shop.customer c ON c.sk = f.customer_sk AND c.city = f.city
    WHERE c.id = f.sale_id * 37 %% 2000 + 1
"""


def places(shop: Shop) -> dict[str, int]:
    """Tuples in each place but the fact table."""
    return dict(query(shop.url, "SELECT place, count(*) FROM freshet.held_tuple GROUP BY place"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_loads_the_plain_join(shop: Shop, algorithm: str) -> None:
    lookups = sales_definition(shop.folder)["lookups"]
    lookups[0]["algorithm"] = algorithm
    shop.define(lookups=lookups)
    shop.one_file_a_batch()
    # One lookup a tuple costs a query each: fewer tuples for that one. The last part repeats keys of the first.
    count = 2400 if algorithm.endswith("index_nested_loop") and "batched" not in algorithm else 6000
    for part in range(3):
        land(shop.folder, f"part-{part}", (sale(n) for n in range(part * count // 3, (part + 1) * count // 3)))
    shop.load()
    assert query(shop.url, "SELECT count(*), count(DISTINCT sale_id) FROM shop.fact_sales") == [(count, count)]
    assert query(shop.url, PLAIN_JOIN.replace("%%", "%")) == [(count,)]
    ordered = "SELECT statistics FROM freshet.batch ORDER BY batch_no"
    batches = [statistics for (statistics,) in query(shop.url, ordered)]
    assert len(batches) == 3
    [first] = batches[0]["lookups"]
    # The catalogue's cached_x is a front stage before x. All of R fits there: `auto` has to choose only until it has
    # been read.
    has_front = algorithm == "auto" or algorithm.startswith("cached_")
    assert first["algorithm"] in ([*CATALOGUE, "auto"] if algorithm == "auto" else [algorithm.removeprefix("cached_")])
    assert ("all of R" in (first["reason"] or "")) == has_front
    hits = sum(statistics["front_stage_hits"] for statistics in batches)
    assert (hits > 0) == has_front
    assert shop.verify().holds


@pytest.mark.parametrize("algorithm", [name for name, known in CATALOGUE.items() if known.reads_pages])
def test_an_algorithm_that_reads_pages_refuses_a_relation_without(shop: Shop, algorithm: str) -> None:
    query(shop.url, "CREATE TABLE shop.member AS SELECT * FROM shop.customer")
    query(shop.url, "CREATE UNIQUE INDEX ON shop.member (id DESC)")
    lookup = sales_definition(shop.folder)["lookups"][0] | {"relation": "shop.member", "algorithm": algorithm}
    shop.define(lookups=[lookup])
    with pytest.raises(SchemaMismatchError, match=r"reads R by pages\. Pages of shop\.member can't be read"):
        shop.load()


def test_a_second_load_goes_on_where_the_first_ended(shop: Shop) -> None:
    land(shop.folder, "first", (sale(n) for n in range(1000)))
    shop.load()
    land(shop.folder, "second", (sale(n) for n in range(1000, 1500)))
    shop.load()
    assert query(shop.url, "SELECT count(*) FROM shop.fact_sales") == [(1500,)]
    assert query(shop.url, "SELECT sum(facts), sum(duplicates) FROM freshet.batch") == [(1500, 0)]
    assert shop.verify().holds


def test_a_hot_key_is_joined_in_the_front_stage_once_it_is_known(shop: Shop) -> None:
    shop.one_file_a_batch()
    for part in range(4):
        land(shop.folder, f"part-{part}", (sale(part * 500 + n, customer=n % 3 + 7) for n in range(500)))
    shop.load()
    assert query(shop.url, "SELECT count(*) FROM shop.fact_sales") == [(2000,)]
    hits = "SELECT (statistics->>'front_stage_hits')::bigint FROM freshet.batch ORDER BY batch_no"
    assert query(shop.url, hits)[1:] == [(500,), (500,), (500,)]
    assert shop.verify().holds


def test_two_lookups_each_with_its_own_rule(shop: Shop) -> None:
    query(
        shop.url,
        "CREATE TABLE shop.fact_items (sale_id bigint PRIMARY KEY, customer_sk bigint NOT NULL, "
        "article_sk bigint NOT NULL, price numeric(8, 2), sold_at timestamptz);"
        "ALTER TABLE shop.article ADD price numeric(8, 2) DEFAULT 1.25",
    )
    customer = sales_definition(shop.folder)["lookups"][0] | {"fetch": {"customer_sk": "sk"}}
    article = {
        "relation": "shop.article",
        "on": {"size": "size", "article": "code"},
        "fetch": {"article_sk": "sk", "price": "price"},
        "memory": "300KB",
        "on_unmatched": {"default": {"article_sk": -1, "price": 0}},
    }
    source = sales_definition(shop.folder)["source"] | {
        "schema": "sale_id bigint, customer bigint, article string, size int, sold_at timestamp"
    }
    columns = {name: name for name in ("sale_id", "customer_sk", "article_sk", "price", "sold_at")}
    shop.define(source=source, lookups=[customer, article], fact={"table": "shop.fact_items", "columns": columns})
    shop.one_file_a_batch()
    for part in range(3):
        numbers = range(part * 1000, (part + 1) * 1000)
        items = (sale(n, customer=n % 2200 + 1, article=f"article-{n % 120}", size=n % 10) for n in numbers)
        land(shop.folder, f"part-{part}", items)
    # Keys that can never match: where the lookup has a default, that applies nevertheless.
    land(shop.folder, "part-3", [sale(3000, customer=None, article="article-1", size=0), sale(3001, customer=None)])
    land(shop.folder, "part-4", [sale(3002, customer=1, article="\0", size=0), sale(3003, customer=9999, size=0)])
    shop.load()
    held = sum(n % 2200 + 1 > 2000 for n in range(3000))
    assert places(shop) == {"unmatched": held + 1, "rejected": 2}
    defaults = sum(n % 2200 + 1 <= 2000 and n % 120 >= 100 for n in range(3000))
    by_default = query(shop.url, "SELECT count(*) FROM shop.fact_items WHERE article_sk = -1 AND price = 0")
    assert by_default == [(defaults + 1,)]
    assert query(shop.url, "SELECT count(*) FROM shop.fact_items") == [(3000 - held + 1,)]
    assert shop.verify().holds


def test_a_default_of_another_type_is_told_before_the_stream_starts(shop: Shop) -> None:
    lookups = sales_definition(shop.folder)["lookups"]
    lookups[0]["on_unmatched"] = {"default": {"customer_sk": "nobody", "city": None}}
    shop.define(lookups=lookups)
    with pytest.raises(SchemaMismatchError, match="'nobody' of customer_sk is no int64"):
        shop.load()


def test_duplicates_are_stored_once_and_counted_apart(shop: Shop) -> None:
    land(shop.folder, "first", [*(sale(n) for n in range(100)), *(sale(n) for n in range(50))])
    shop.load()
    land(shop.folder, "second", (sale(n) for n in range(80, 130)))
    shop.load()
    assert query(shop.url, "SELECT sum(facts), sum(duplicates) FROM freshet.batch") == [(130, 70)]
    assert shop.verify().holds


def test_unmatched_tuples_are_held_with_their_payload(shop: Shop) -> None:
    land(shop.folder, "some", [sale(1), sale(2, customer=999_999)])
    shop.load()
    assert places(shop) == {"unmatched": 1}
    [(event_id, relation, payload)] = query(shop.url, "SELECT event_id, relation, payload FROM freshet.unmatched")
    assert (event_id, relation) == ("[2]", "shop.customer")
    assert '"customer":999999' in payload.replace(" ", "")
    assert shop.verify().holds


def test_a_duplicate_of_a_held_tuple_does_not_become_a_fact(shop: Shop) -> None:
    land(shop.folder, "first", [sale(1, customer=999_999)])
    shop.load()
    land(shop.folder, "second", [sale(1), sale(2)])
    shop.load()
    assert query(shop.url, "SELECT sale_id FROM shop.fact_sales") == [(2,)]
    assert places(shop) == {"unmatched": 1}
    assert query(shop.url, "SELECT sum(duplicates) FROM freshet.batch") == [(1,)]
    assert shop.verify().holds


@pytest.mark.parametrize(
    ("rule", "customers", "held"),
    [
        ("hold", [15], {"unmatched": 1, "rejected": 1}),  # null is never the key of a customer
        ("reject", [15], {"rejected": 2}),
        ({"default": {"customer_sk": -1, "city": None}}, [-1, -1, 15], {}),
    ],
)
def test_the_rule_for_unmatched_tuples(shop: Shop, rule: object, customers: list[int], held: dict[str, int]) -> None:
    lookups = sales_definition(shop.folder)["lookups"]
    lookups[0]["on_unmatched"] = rule
    shop.define(lookups=lookups)
    land(shop.folder, "some", [sale(1, customer=2), sale(2, customer=999_999), sale(3, customer=None)])
    shop.load()
    assert query(shop.url, "SELECT customer_sk FROM shop.fact_sales ORDER BY 1") == [(sk,) for sk in customers]
    assert places(shop) == held
    assert shop.verify().holds


def test_bad_input_is_rejected_with_reason_and_payload_and_the_rest_is_loaded(shop: Shop) -> None:
    bad = {
        b"{not json": "malformed",
        b'{"sale_id": "seven", "customer": 1}': "malformed",
        b'{"sale_id": 1000, "customer": 99999999999999999999}': "malformed",
        b'{"sale_id": 1001, "customer": 1, "amount": 1e30}': "malformed",
        b'{"sale_id": 1002, "customer": 1, "amount": 9999999999.99}': "amount",  # decimal(12,2) into numeric(10,2)
        b'{"sale_id": null, "customer": 1}': "sale_id",
        b'{"sale_id": 1003, "customer": 1, "sold_at": "soon"}': "malformed",
        b'{"sale_id": 1004, "customer": 1, "amount": "1.5", "extra": "\xff\xfe"}': "malformed",
    }
    land(shop.folder, "mixed", [sale(1), *bad, sale(2)])
    shop.load()
    assert query(shop.url, "SELECT sale_id FROM shop.fact_sales ORDER BY 1") == [(1,), (2,)]
    assert places(shop) == {"rejected": len(bad)}
    reasons = [reason for (reason,) in query(shop.url, "SELECT reason FROM freshet.rejected")]
    for expected in bad.values():
        assert any(expected in reason for reason in reasons), (expected, reasons)
    assert query(shop.url, "SELECT count(*) FROM freshet.rejected WHERE payload = ''") == [(0,)]
    assert shop.verify().holds


def test_a_composite_key_with_text_works(shop: Shop) -> None:
    query(
        shop.url,
        "CREATE TABLE shop.fact_items (shop_id text, item_id integer, article_sk bigint NOT NULL, "
        "sold_at timestamptz, PRIMARY KEY (shop_id, item_id))",
    )
    definition = {
        "name": "items",
        "source": {
            "format": "json",
            "path": str(shop.folder / "landing"),
            "schema": "shop_id string, item_id int, article string, size bigint, sold_at timestamp",
            "event_id": ["shop_id", "item_id"],
            "event_time": "sold_at",
        },
        "lookups": [
            {
                "relation": "shop.article",
                "on": {"article": "code", "size": "size"},
                "fetch": {"article_sk": "sk"},
                "memory": "4MB",
            }
        ],
        "fact": {
            "table": "shop.fact_items",
            "columns": {"shop_id": "shop_id", "item_id": "item_id", "article_sk": "article_sk", "sold_at": "sold_at"},
        },
        "freshness": {"target": "5s"},
    }
    shop.define(definition)
    events = [
        {
            "shop_id": f"Ä'{n % 7}",
            "item_id": n,
            "article": f"article-{n % 110}",
            "size": n % 10,
            "sold_at": "2026-03-01T10:00:00Z",
        }
        for n in range(3000)
    ]
    impossible = [{"article": None}, {"article": "article-1\0"}, {"size": 2**31}, {"size": None}]
    events += [events[0] | {"item_id": 3000 + n} | changes for n, changes in enumerate(impossible)]
    shop.one_file_a_batch()
    for part in range(2):
        land(shop.folder, f"part-{part}", events[part * 1500 :][: 1500 + part * len(impossible)])
    shop.load()
    unmatched = sum(1 for n in range(3000) if n % 110 >= 100)
    assert query(shop.url, "SELECT count(*) FROM shop.fact_items") == [(3000 - unmatched,)]
    assert places(shop) == {"unmatched": unmatched, "rejected": len(impossible)}
    reasons = "SELECT reason FROM freshet.rejected ORDER BY event_id"
    assert [reason.removeprefix("a key that can never match: ") for (reason,) in query(shop.url, reasons)] == [
        "article is null, which equals no value of shop.article.code (text)",
        'article is "article-1\\u0000", which equals no value of shop.article.code (text)',
        "size is 2147483648, which equals no value of shop.article.size (int4)",
        "size is null, which equals no value of shop.article.size (int4)",
    ]
    assert shop.verify().holds


def test_a_ledger_that_has_lost_its_ranges_loads_nothing_twice(shop: Shop) -> None:
    land(shop.folder, "some", [*(sale(n) for n in range(500)), sale(500, customer=999_999), b"{"])
    shop.load()
    query(shop.url, "DELETE FROM freshet.source_range")
    shop.load()
    assert query(shop.url, "SELECT count(*) FROM shop.fact_sales") == [(500,)]
    assert places(shop) == {"unmatched": 1, "rejected": 1}
    assert query(shop.url, "SELECT sum(arrived), sum(duplicates) FROM freshet.batch") == [(1004, 502)]
    assert shop.verify().holds


def test_a_batch_that_was_cut_off_is_loaded_to_its_end_and_nothing_twice(shop: Shop) -> None:
    land(shop.folder, "some", [*(sale(n) for n in range(500)), sale(500, customer=999_999), b"{"])
    shop.load()
    # What a driver leaves that is killed between the tasks' last commit and the batch's.
    query(
        shop.url,
        """
        UPDATE freshet.source_range SET state = 'planned', records = NULL;
        INSERT INTO freshet.batch_part SELECT gen_random_uuid(), batch_no, facts, shed, unmatched, rejected, duplicates,
            event_latency, arrival_latency FROM freshet.batch;
        UPDATE freshet.batch SET state = 'started', closed_at = NULL;
        """,
    )
    shop.load()
    sums = "SELECT arrived, facts, unmatched, rejected, duplicates FROM freshet.batch"
    assert query(shop.url, sums) == [(502, 500, 1, 1, 0)]
    assert shop.verify().holds


def test_a_fact_table_that_does_not_fit_is_told_before_the_stream_starts(shop: Shop) -> None:
    query(shop.url, "ALTER TABLE shop.fact_sales DROP COLUMN city")
    with pytest.raises(SchemaMismatchError, match="city"):
        shop.load()
    assert query(shop.url, "SELECT count(*) FROM freshet.driver") == [(0,)]


def test_parquet_files_that_do_not_fit_are_set_aside_whole_and_named(shop: Shop) -> None:
    source = sales_definition(shop.folder)["source"] | {"format": "parquet"}
    shop.define(source=source)
    moment = pa.scalar(datetime(2026, 3, 1, tzinfo=UTC))
    sales = pa.table({"SALE_ID": range(300), "customer": [n % 50 + 1 for n in range(300)]})
    sales = sales.append_column("sold_at", pa.repeat(moment, 300))  # no amount: null, and case does not matter
    pq.write_table(sales, shop.folder / "landing" / "good.parquet")
    wrong = pa.table({"sale_id": ["a", "b"], "customer": [1, 2]})
    pq.write_table(wrong, shop.folder / "landing" / "wrong-type.parquet")
    (shop.folder / "landing" / "damaged.parquet").write_bytes(b"PAR1 this is no parquet file")
    shop.load()
    assert query(shop.url, "SELECT count(*), count(amount) FROM shop.fact_sales") == [(300, 0)]
    aside = "SELECT unit, reason FROM freshet.source_range WHERE state = 'set aside' ORDER BY unit"
    (damaged, _), (wrong, reason) = query(shop.url, aside)
    assert (damaged, wrong) == ("damaged.parquet", "wrong-type.parquet")
    assert "sale_id" in reason
    assert places(shop) == {}
    assert shop.verify().holds


def test_csv_keeps_bytes_that_are_no_utf8(shop: Shop) -> None:
    query(shop.url, "CREATE TABLE shop.fact_notes (note_id bigint PRIMARY KEY, note text, noted_at timestamptz)")
    source = {
        "format": "csv",
        "path": str(shop.folder / "landing"),
        "schema": "note_id bigint, note string, noted_at timestamp",
        "event_id": ["note_id"],
        "event_time": "noted_at",
        "options": {"header": True},
    }
    columns = {"note_id": "note_id", "note": "note", "noted_at": "noted_at"}
    shop.define({"name": "notes", "source": source, "fact": {"table": "shop.fact_notes", "columns": columns}})
    lines = [
        b"note_id,note,noted_at",
        "1,Gr\u00fc\u00dfe \u4f60\u597d,2026-03-01T10:00:00Z".encode(),
        b"2,caf\xe9,2026-03-01T10:00:00Z",
        b"three,x,2026-03-01T10:00:00Z",
    ]
    land(shop.folder, "notes", lines)
    shop.load()
    assert query(shop.url, "SELECT note_id, note FROM shop.fact_notes") == [(1, "Gr\u00fc\u00dfe \u4f60\u597d")]
    assert places(shop) == {"rejected": 2}
    assert shop.verify().holds
