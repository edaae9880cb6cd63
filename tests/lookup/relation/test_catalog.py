"""Describing a relation: what is read from the catalog, and what the errors say."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.errors import SchemaMismatchError
from tests.lookup.conftest import Describe

Execute = Callable[..., None]


def test_a_relation_is_described_with_its_types(execute: Execute, describe: Describe) -> None:
    execute("""
        CREATE TABLE r (
            k bigint PRIMARY KEY, sk int, flag boolean, amount numeric(12, 3), name varchar(20), code char(4),
            id uuid, day date, at timestamptz, local timestamp, ratio float8, small smallint, single real);
        INSERT INTO r SELECT g, g, true, g, 'n', 'c', gen_random_uuid(), now(), now(), now(), g, g, g
        FROM generate_series(1, 500) AS g;
        ANALYZE r;
    """)
    names = ["sk", "flag", "amount", "name", "code", "id", "day", "at", "local", "ratio", "small", "single"]
    spec = describe("public.r", {"integer": "k"}, {f"r_{name}": name for name in names})
    assert spec.relation == "public.r"
    assert spec.stream_columns == ("integer",)
    assert spec.key_kinds == (KeyKind.INTEGER,)
    assert spec.fetched_schema == pa.schema(
        [
            ("r_sk", pa.int32()), ("r_flag", pa.bool_()), ("r_amount", pa.decimal128(12, 3)), ("r_name", pa.string()),
            ("r_code", pa.string()), ("r_id", pa.string()), ("r_day", pa.date32()),
            ("r_at", pa.timestamp("us", "UTC")), ("r_local", pa.timestamp("us")), ("r_ratio", pa.float64()),
            ("r_small", pa.int16()), ("r_single", pa.float32()),
        ]
    )  # fmt: skip
    assert spec.row_count == 500
    assert 100 < spec.tuple_bytes < 200
    assert spec.page_refusal is None


def test_tuples_are_counted_where_there_are_no_statistics(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 37)")
    assert describe("public.r", {"integer": "k"}, {}).row_count == 37


def test_the_estimate_follows_the_growth_of_the_table(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 10000); ANALYZE r")
    execute("ALTER TABLE r SET (autovacuum_enabled = off); INSERT INTO r SELECT generate_series(10001, 20000)")
    assert describe("public.r", {"integer": "k"}, {}).row_count == pytest.approx(20_000, rel=0.05)


def test_an_empty_relation_still_says_what_a_tuple_takes(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY, sk bigint)")
    spec = describe("public.r", {"integer": "k"}, {"sk": "sk"})
    assert spec.row_count == 0
    assert spec.tuple_bytes >= 16


def test_domains_count_as_the_type_that_they_are_over(execute: Execute, describe: Describe) -> None:
    execute(
        "CREATE DOMAIN money_amount AS numeric(10, 2); CREATE DOMAIN price AS money_amount; CREATE DOMAIN id AS int"
    )
    execute("CREATE TABLE r (k id PRIMARY KEY, cost price)")
    spec = describe("public.r", {"integer": "k"}, {"cost": "cost"})
    assert spec.fetched_schema.field("cost").type == pa.decimal128(10, 2)


def test_key_columns_follow_the_index_and_carry_the_streams_names(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (a bigint, b text, PRIMARY KEY (b, a))")
    spec = describe("public.r", {"integer": "a", "text": "b"}, {})
    assert spec.stream_columns == ("text", "integer")


def test_a_unique_index_on_fewer_columns_suffices_for_lookups_but_not_for_pages(
    execute: Execute, describe: Describe
) -> None:
    execute("CREATE TABLE r (a bigint PRIMARY KEY, b text)")
    spec = describe("public.r", {"integer": "a", "text": "b"}, {})
    assert "CREATE UNIQUE INDEX ON public.r (a, b COLLATE" in spec.page_refusal


def test_materialized_views_and_partitioned_tables_are_relations_too(execute: Execute, describe: Describe) -> None:
    execute("""
        CREATE MATERIALIZED VIEW m AS SELECT generate_series(1, 5) AS k; CREATE UNIQUE INDEX ON m (k);
        CREATE TABLE p (k int PRIMARY KEY) PARTITION BY RANGE (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
        INSERT INTO p SELECT generate_series(1, 7);
    """)
    assert describe("public.m", {"integer": "k"}, {}).row_count == 5
    assert describe("public.p", {"integer": "k"}, {}).row_count == 7
    execute("ANALYZE p")
    assert describe("public.p", {"integer": "k"}, {}).row_count == 7


def test_a_missing_relation_is_reported_with_a_suggestion(execute: Execute, describe: Describe) -> None:
    execute('CREATE SCHEMA master; CREATE TABLE master.customer (k int); CREATE TABLE master."Part" (k int)')
    with pytest.raises(SchemaMismatchError, match=r"no relation master\.costumer .* mean master\.customer\?"):
        describe("master.costumer", {"integer": "k"}, {})
    with pytest.raises(SchemaMismatchError, match=r"mean master\.Part\?"):
        describe("master.part", {"integer": "k"}, {})
    with pytest.raises(SchemaMismatchError, match=r"The relations are: master\.Part, master\.customer"):
        describe("other.thing", {"integer": "k"}, {})


def test_a_view_is_refused_with_the_way_out(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM r")
    with pytest.raises(SchemaMismatchError, match=r"is a view, .* materialized view"):
        describe("public.v", {"integer": "k"}, {})


def test_a_table_with_heirs_is_refused_with_the_way_out(execute: Execute, describe: Describe) -> None:
    execute("""
        CREATE TABLE r (k int PRIMARY KEY); CREATE TABLE heir () INHERITS (r);
        INSERT INTO r VALUES (1); INSERT INTO heir VALUES (1);
        ALTER TABLE heir ADD PRIMARY KEY (k);
    """)
    with pytest.raises(SchemaMismatchError, match=r"inherit from it.* found twice.*public\.heir\. Detach"):
        describe("public.r", {"integer": "k"}, {})
    assert describe("public.heir", {"integer": "k"}, {}).row_count == 1
    execute("ALTER TABLE heir NO INHERIT r")
    assert describe("public.r", {"integer": "k"}, {}).row_count == 1


def test_all_problems_are_reported_at_once(execute: Execute, describe: Describe) -> None:
    execute('CREATE TABLE r (k bigint PRIMARY KEY, t text UNIQUE, doc jsonb, free numeric, "Upper" int)')
    with pytest.raises(SchemaMismatchError) as caught:
        describe(
            "public.r",
            {"text": "k", "number": "t", "absent": "k", "integer": "doc"},
            {"a": "doc", "b": "free", "c": "upper", "d": "nothing"},
        )
    message = str(caught.value)
    for part in [
        "column k is bigint, but the stream's text is string; declare it as an integer",
        "column t is text, but the stream's number is double; declare it as string",
        "the stream has no column absent; it has integer, small, text, date, number",
        "column doc is jsonb; a key can be bigint",
        "column doc is jsonb, which can't be fetched; what can: bool",
        "column free is numeric, which can't be fetched",
        "no column upper. Did you mean Upper?",
        "no column nothing. It has k, t, doc, free, Upper.",
    ]:
        assert part in message


@pytest.mark.parametrize(
    "index",
    [
        "CREATE INDEX ON r (k)",
        "CREATE UNIQUE INDEX ON r (k, other)",
        "CREATE UNIQUE INDEX ON r (k) WHERE other > 0",
        "CREATE UNIQUE INDEX ON r (abs(k))",
        "CREATE INDEX ON r USING hash (k)",
    ],
)
def test_without_a_unique_index_on_the_key_there_is_no_lookup(execute: Execute, describe: Describe, index: str) -> None:
    execute(f"CREATE TABLE r (k bigint, other bigint); {index}")
    with pytest.raises(SchemaMismatchError, match=r"CREATE UNIQUE INDEX ON public\.r \(k\)"):
        describe("public.r", {"integer": "k"}, {})


def test_columns_that_are_only_included_in_an_index_are_not_its_key(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k bigint, other bigint); CREATE UNIQUE INDEX ON r (k) INCLUDE (other)")
    assert describe("public.r", {"integer": "k"}, {}).page_refusal is None
    with pytest.raises(SchemaMismatchError, match="no unique index"):
        describe("public.r", {"integer": "other"}, {})


def test_a_nondeterministic_collation_is_refused(execute: Execute, describe: Describe) -> None:
    # Only ICU has such collations, and not every build of PostgreSQL has ICU: the catalog alone has this one.
    execute('CREATE COLLATION loose FROM "C"; CREATE TABLE r (k text COLLATE loose PRIMARY KEY)')
    execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose'")
    with pytest.raises(SchemaMismatchError, match="nondeterministic"):
        describe("public.r", {"text": "k"}, {})


def test_a_column_that_may_not_be_read_is_reported(execute: Execute, describe: Describe) -> None:
    execute("""
        CREATE TABLE r (k int PRIMARY KEY, secret int);
        DO $$ BEGIN CREATE ROLE reader_of_keys; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        GRANT SELECT (k) ON r TO reader_of_keys;
        CREATE TABLE hidden (k int PRIMARY KEY);
        SET ROLE reader_of_keys;
    """)
    with pytest.raises(SchemaMismatchError, match="column k may not be read"):
        describe("public.hidden", {"integer": "k"}, {})
    with pytest.raises(SchemaMismatchError, match="column secret may not be read by this user: GRANT SELECT"):
        describe("public.r", {"integer": "k"}, {"secret": "secret"})
