"""R in PostgreSQL: pages and lookups return the right tuples, for every kind of key."""

import datetime
import itertools
import multiprocessing
import pickle
import random
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2 import extensions

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.page_cutting import cut_pages, outgrown
from spark_jobs.lookup.relation.queries import fence_query, lookup_query, page_query
from spark_jobs.lookup.relation.reading_connection import reading_connection
from tests.lookup.conftest import Describe, Open, keys_for

Execute = Callable[..., None]

AWKWARD_TEXTS = [
    "", " ", "a", "A", "aa", "\u00e4", "z", "Z", "\u00df", "\u65e5\u672c\u8a9e", "\U0001f600", "null", "NULL",
    '"', '""', "'", "''", "\\", "\\\\", '\\"', "a,b", "{a}", "{", "}", "a b", "tab\there", "line\nbreak", "%s", "$$",
    "\x01", "\x7f", "\u00e9", "e\u0301", "x" * 500, "--", ";", "\u00a0", "\ufeff",
]  # fmt: skip

KEYS: dict[str, tuple[str, str, list[Any]]] = {
    "bigint": ("integer", "bigint", [-(2**63), -(2**31) - 1, -5, -1, 0, 1, 7, 2**31, 2**53 + 1, 2**63 - 1]),
    "int": ("integer", "int", [-(2**31), -1, 0, 5, 2**31 - 1]),
    "smallint": ("integer", "smallint", [-(2**15), -3, 0, 2**15 - 1]),
    "date": (
        "date", "date",
        [datetime.date.min, datetime.date(1969, 12, 31), datetime.date(2000, 1, 1), datetime.date.max],
    ),
    "text": ("text", "text", AWKWARD_TEXTS),
    "varchar": ("text", "varchar(500)", AWKWARD_TEXTS),
    "char": ("text", "char(5)", ["", "a", "a b", "abcde", "ä", " x", "\\", '"']),
    "uuid": ("text", "uuid", [str(uuid.UUID(int=n)) for n in (0, 1, 0xA0EEBC99 << 96, 2**127, 2**128 - 1)]),
}  # fmt: skip


def tuples_of(page: Page) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in page.rows.columns.columns), strict=True))


def all_pages(relation: LiveRelation) -> list[Page]:
    return [relation.read_pages(number) for number in range(relation.page_count)]


def all_tuples(relation: LiveRelation) -> list[tuple]:
    return list(itertools.chain.from_iterable(tuples_of(page) for page in all_pages(relation)))


def check(relation: LiveRelation) -> None:
    """Each page has keys that belong to it, in no other page, and says what it takes."""
    for number, page in enumerate(all_pages(relation)):
        assert (relation.page_of(page.rows.keys) == number).all()
        assert page.keys.tolist() == page.rows.keys.codes.tolist()
        assert len(set(page.keys.tolist())) == len(page.keys) == page.rows.columns.num_rows
        assert page.size == page.rows.nbytes


@pytest.mark.parametrize("kind", KEYS)
def test_pages_and_lookups_agree_with_the_table(
    connection: extensions.connection, execute: Execute, open_relation: Open, kind: str
) -> None:
    stream, declared, values = KEYS[kind]
    execute(f"CREATE TABLE r (k {declared} PRIMARY KEY, sk int)")
    shuffled = random.Random(1).sample(values, len(values))
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO r VALUES (%s, %s)", [(value, i) for i, value in enumerate(shuffled)])
        cursor.execute("SELECT sk FROM r ORDER BY k")
        in_order = cursor.fetchall()
    relation = open_relation("public.r", {stream: "k"}, {"sk": "sk"}, page_rows=3)
    check(relation)
    assert relation.page_count == -(-len(values) // 3)
    assert [len(page.keys) for page in all_pages(relation)[:-1]] == [3] * (relation.page_count - 1)
    pages = [sorted(in_order[i : i + 3]) for i in range(0, len(in_order), 3)]
    assert [sorted(tuples_of(page)) for page in all_pages(relation)] == pages

    for i, value in enumerate(shuffled):
        assert tuples_of(relation.lookup_keys(keys_for(relation, [value]))) == [(i,)]
    everything = relation.lookup_keys(keys_for(relation, shuffled))
    assert sorted(tuples_of(everything)) == [(i,) for i in range(len(values))]


def test_stream_columns_of_any_integer_width_meet_keys_of_any_other(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE wide (k bigint PRIMARY KEY); INSERT INTO wide VALUES (1), (70000), (5000000000)")
    execute("CREATE TABLE narrow (k smallint PRIMARY KEY); INSERT INTO narrow VALUES (1), (2)")
    wide = open_relation("public.wide", {"small": "k"}, {"k": "k"})
    assert tuples_of(wide.lookup_keys(keys_for(wide, [1, 2]))) == [(1,)]
    narrow = open_relation("public.narrow", {"integer": "k"}, {"k": "k"})
    assert tuples_of(narrow.lookup_keys(keys_for(narrow, [1, 2**40, -(2**63)]))) == [(1,)]
    assert narrow.page_of(keys_for(narrow, [2**40, -(2**63)])).tolist() == [0, 0]


def test_absent_repeated_and_invalid_keys(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k text PRIMARY KEY); INSERT INTO r VALUES ('a'), ('b')")
    relation = open_relation("public.r", {"text": "k"}, {"k": "k"})
    keys = keys_for(relation, ["a", "x", None, "a", "zero\0byte", "b"])
    assert sorted(tuples_of(relation.lookup_keys(keys))) == [("a",), ("b",)]
    assert tuples_of(relation.lookup_keys(keys_for(relation, [None]))) == []
    assert tuples_of(relation.lookup_keys(keys_for(relation, []))) == []
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["absent"]))) == []


def test_infinite_dates_are_keys_like_others(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k date PRIMARY KEY, n int)")
    execute("INSERT INTO r VALUES ('-infinity', 1), ('4713-01-01 BC', 2), ('2024-01-01', 3), ('infinity', 4)")
    relation = open_relation("public.r", {"date": "k"}, {"n": "n"}, page_rows=1)
    check(relation)
    assert all_tuples(relation) == [(1,), (2,), (3,), (4,)]
    days = pa.array([2**31 - 1, -(2**31), -2_440_589, 2_145_042_906, 19_723], pa.int32()).view(pa.date32())
    found = relation.lookup_keys(KeyColumns.encode([days], relation.spec.key_kinds))
    assert sorted(tuples_of(found)) == [(1,), (3,), (4,)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    st.sets(
        st.tuples(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3),
            st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        ),
        max_size=25,
    ),
    st.integers(1, 7),
)
def test_composite_keys(
    connection: extensions.connection,
    execute: Execute,
    open_relation: Open,
    drawn: set[tuple[str, int]],
    page_rows: int,
) -> None:
    execute("DROP TABLE IF EXISTS r; CREATE TABLE r (n bigint, t text, sk int, PRIMARY KEY (t, n))")
    rows = [(number, text, i) for i, (text, number) in enumerate(drawn)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO r VALUES (%s, %s, %s)", rows)
    relation = open_relation("public.r", {"integer": "n", "text": "t"}, {"n": "n", "t": "t", "sk": "sk"}, page_rows)
    assert relation.spec.stream_columns == ("text", "integer")
    check(relation)
    assert sorted(all_tuples(relation)) == sorted(rows)
    asked = rows[::2]
    keys = keys_for(relation, [t for _, t, _ in asked] + ["absent"], [n for n, _, _ in asked] + [0])
    assert sorted(tuples_of(relation.lookup_keys(keys))) == sorted(asked)


def test_a_key_of_four_kinds(execute: Execute, open_relation: Open) -> None:
    execute("""
        CREATE TABLE r (d date, u uuid, c char(6), i int, PRIMARY KEY (c, d, i, u));
        INSERT INTO r SELECT date '2024-01-01' + g % 3, lpad(to_hex(g % 2), 32, '0')::uuid, 'c' || g % 5, -g
        FROM generate_series(1, 200) AS g;
    """)
    on = {"date": "d", "text": "u", "text2": "c", "integer": "i"}
    with pytest.raises(SchemaMismatchError, match="no column text2"):
        open_relation("public.r", on, {})
    execute("ALTER TABLE r DROP CONSTRAINT r_pkey; ALTER TABLE r ADD PRIMARY KEY (d, i, c)")
    relation = open_relation("public.r", {"date": "d", "text": "c", "integer": "i"}, {"u": "u", "c": "c"}, page_rows=7)
    check(relation)
    assert len(all_tuples(relation)) == 200
    keys = keys_for(relation, [datetime.date(2024, 1, 2)], [-100], ["c0   "])
    assert tuples_of(relation.lookup_keys(keys)) == [(str(uuid.UUID(int=0)), "c0")]


def test_an_empty_relation_has_one_empty_page(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k text PRIMARY KEY, v numeric(5, 2))")
    relation = open_relation("public.r", {"text": "k"}, {"v": "v"})
    assert relation.page_count == 1
    assert relation.read_pages(0).rows.columns.schema == relation.spec.fetched_schema
    assert tuples_of(relation.read_pages(0)) == []
    execute("INSERT INTO r VALUES ('first', 1.5)")
    assert relation.page_of(keys_for(relation, ["first"])).tolist() == [0]
    assert len(tuples_of(relation.read_pages(0))) == 1


def test_a_relation_of_one_tuple_and_one_of_exactly_one_page(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r VALUES (5)")
    assert all_tuples(open_relation("public.r", {"integer": "k"}, {"k": "k"})) == [(5,)]
    execute("INSERT INTO r SELECT generate_series(6, 14)")
    assert open_relation("public.r", {"integer": "k"}, {}, page_rows=10).page_count == 1
    execute("INSERT INTO r VALUES (15)")
    assert open_relation("public.r", {"integer": "k"}, {}, page_rows=10).page_count == 2


def test_a_relation_that_grows_and_shrinks_keeps_each_key_on_one_page(
    connection: extensions.connection, execute: Execute, open_relation: Open
) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT 10 * g FROM generate_series(1, 50) AS g")
    relation = open_relation("public.r", {"integer": "k"}, {"k": "k"}, page_rows=10)
    assert not outgrown(connection, relation.spec, relation.pages)
    execute("DELETE FROM r WHERE k BETWEEN 105 AND 295 OR k > 300")
    execute("INSERT INTO r SELECT g FROM generate_series(301, 399) AS g WHERE g % 10 > 0")
    execute("INSERT INTO r SELECT generate_series(-100, 0)")
    check(relation)
    keys = sorted(key for (key,) in all_tuples(relation))
    assert keys == [*range(-100, 1), *range(10, 101, 10), 300, *(k for k in range(301, 400) if k % 10)]
    assert [len(page.keys) for page in all_pages(relation)] == [111, 0, 10, 81, 0]


def test_an_index_is_outgrown_when_its_last_page_or_all_of_them_are(
    connection: extensions.connection, execute: Execute, open_relation: Open
) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT 10 * g FROM generate_series(1, 5000) AS g")
    relation = open_relation("public.r", {"integer": "k"}, {"k": "k"}, page_rows=100)
    execute("INSERT INTO r SELECT generate_series(50001, 50099)")
    assert not outgrown(connection, relation.spec, relation.pages)
    execute("INSERT INTO r SELECT generate_series(50101, 50202)")
    assert outgrown(connection, relation.spec, relation.pages)
    execute("DELETE FROM r WHERE k > 50000; INSERT INTO r SELECT g FROM generate_series(1, 9999) AS g WHERE g % 10 > 0")
    assert not outgrown(connection, relation.spec, relation.pages)
    execute("ANALYZE r")
    assert outgrown(connection, relation.spec, relation.pages)
    check(relation)


def test_rows_without_a_key_are_on_no_page_and_do_not_make_an_index_outgrown(
    connection: extensions.connection, execute: Execute, open_relation: Open
) -> None:
    execute("CREATE TABLE r (k int UNIQUE, v int); INSERT INTO r SELECT g, g FROM generate_series(1, 1000) AS g")
    execute("INSERT INTO r SELECT NULL, g FROM generate_series(1, 9000) AS g; ANALYZE r")
    relation = open_relation("public.r", {"integer": "k"}, {"v": "v"}, page_rows=100)
    assert relation.pages.page_count == 10
    assert not outgrown(connection, relation.spec, relation.pages)
    execute("INSERT INTO r SELECT -g, g FROM generate_series(1, 2000) AS g; ANALYZE r")
    assert outgrown(connection, relation.spec, relation.pages)


def test_names_that_need_quoting(execute: Execute, open_relation: Open) -> None:
    execute("""
        CREATE SCHEMA "Sales ""and"" more";
        CREATE TABLE "Sales ""and"" more"."select.from" (
            "the key%s" text, "Ünit" int, "a""b" text, PRIMARY KEY ("the key%s", "Ünit")
        );
        INSERT INTO "Sales ""and"" more"."select.from" SELECT 'k' || g, g, 'v' || g FROM generate_series(1, 25) AS g;
    """)
    relation = open_relation(
        'Sales "and" more.select.from', {"text": "the key%s", "integer": "Ünit"}, {"odd output": 'a"b'}
    )
    check(relation)
    assert len(all_tuples(relation)) == 25
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["k7"], [7]))) == [("v7",)]


def test_nulls_in_the_key_are_on_no_page_and_nulls_elsewhere_are_fetched(execute: Execute, open_relation: Open) -> None:
    execute("""
        CREATE TABLE r (a text, b bigint, v text); CREATE UNIQUE INDEX ON r (a, b);
        INSERT INTO r VALUES ('x', 1, NULL), ('y', 2, 'v'), (NULL, 1, 'no'), ('x', NULL, 'no'), (NULL, NULL, 'no');
    """)
    for page_rows in (1, 2, 10):
        relation = open_relation("public.r", {"text": "a", "integer": "b"}, {"v": "v"}, page_rows)
        check(relation)
        assert sorted(all_tuples(relation), key=str) == [("v",), (None,)]
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["x"], [1]))) == [(None,)]


def test_char_columns_are_fetched_without_padding_as_a_cast_to_text_has_them(
    execute: Execute, open_relation: Open
) -> None:
    execute("CREATE TABLE r (k char(6) PRIMARY KEY, v char(6)); INSERT INTO r VALUES ('ab', 'cd'), ('  ab', '')")
    relation = open_relation("public.r", {"text": "k"}, {"k": "k", "v": "v"})
    assert sorted(all_tuples(relation)) == [("  ab", ""), ("ab", "cd")]
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["ab      "]))) == [("ab", "cd")]
    assert relation.page_of(keys_for(relation, ["ab", "ab  "])).tolist() == [0, 0]


def test_keys_in_another_order_than_bytes_have_lookups_but_no_pages(
    empty_database_url: str, execute: Execute, describe: Describe, other_collation: str
) -> None:
    execute(f"CREATE TABLE r (k text COLLATE {other_collation} PRIMARY KEY, sk int)")
    execute("INSERT INTO r SELECT chr(64 + g) || 'x', g FROM generate_series(1, 60) AS g")
    spec = describe("public.r", {"text": "k"}, {"sk": "sk"})
    with pytest.raises(SchemaMismatchError, match=r'k COLLATE "C"\), or choose `algorithm: batched_index_nested_loop`'):
        LiveRelation.open(empty_database_url, spec)
    relation = LiveRelation(empty_database_url, spec)
    assert relation.page_count == 0
    with pytest.raises(SchemaMismatchError, match="batched_index_nested_loop"):
        relation.page_of(keys_for(relation, ["Ax"]))
    assert sorted(tuples_of(relation.lookup_keys(keys_for(relation, ["Ax", "ax", "Zx", "no"])))) == [(1,), (26,), (33,)]


@pytest.mark.parametrize("index", ['CREATE INDEX ON r (k COLLATE "C")', 'CREATE UNIQUE INDEX ON r (k COLLATE "C", sk)'])
def test_another_index_in_the_order_of_bytes_gives_pages(
    execute: Execute, open_relation: Open, other_collation: str, index: str
) -> None:
    execute(f"CREATE TABLE r (k text COLLATE {other_collation} PRIMARY KEY, sk int)")
    execute("INSERT INTO r SELECT chr(64 + g) || 'x', g FROM generate_series(1, 60) AS g")
    execute(index)
    relation = open_relation("public.r", {"text": "k"}, {"k": "k"}, page_rows=7)
    check(relation)
    keys = [key for (key,) in all_tuples(relation)]
    assert sorted(keys) == sorted(chr(64 + g) + "x" for g in range(1, 61))
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["Ax"]))) == [("Ax",)]


def test_a_table_whose_only_unique_index_has_another_collation_is_looked_up_through_it(
    execute: Execute, open_relation: Open, other_collation: str
) -> None:
    execute(f"CREATE TABLE r (k text COLLATE {other_collation} NOT NULL, sk int)")
    execute('CREATE UNIQUE INDEX ON r (k COLLATE "C")')
    execute("INSERT INTO r SELECT 'k' || g, g FROM generate_series(1, 30) AS g")
    relation = open_relation("public.r", {"text": "k"}, {"sk": "sk"})
    check(relation)
    assert tuples_of(relation.lookup_keys(keys_for(relation, ["k17"]))) == [(17,)]


@pytest.mark.parametrize(
    ("declaration", "on", "column"),
    [
        ("k bigint PRIMARY KEY", {"integer": "k"}, [[5]]),
        ("k int PRIMARY KEY", {"integer": "k"}, [[5]]),
        ("k date PRIMARY KEY", {"date": "k"}, [[datetime.date(2024, 1, 5)]]),
        ("k varchar PRIMARY KEY", {"text": "k"}, [["5"]]),
        ("k char(9) PRIMARY KEY", {"text": "k"}, [["5"]]),
        ("k text COLLATE {other}", {"text": "k"}, [["5"]]),
        ("k text, n int, PRIMARY KEY (k, n)", {"text": "k", "integer": "n"}, [["5"], [5]]),
    ],
)
def test_every_read_goes_by_an_index(
    empty_database_url: str,
    execute: Execute,
    describe: Describe,
    other_collation: str,
    declaration: str,
    on: dict[str, str],
    column: list,
) -> None:
    execute(f"CREATE TABLE r ({declaration.format(other=other_collation)})")
    if "PRIMARY KEY" not in declaration:
        execute('CREATE UNIQUE INDEX ON r (k COLLATE "C")')
    value = "date '2024-01-01' + g" if "date" in on else "g"
    execute(f"INSERT INTO r SELECT {value}{', g' if len(on) > 1 else ''} FROM generate_series(1, 3000) AS g; ANALYZE r")
    spec = describe("public.r", on, {})
    reading = reading_connection(empty_database_url)
    pages = reading.run(lambda connection: cut_pages(connection, spec, 100))
    keys = keys_for(LiveRelation(empty_database_url, spec), *column)

    def plan(connection: extensions.connection, query: Any) -> str:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + query.as_string(connection))
            return "\n".join(line for (line,) in cursor.fetchall())

    for query in (page_query(spec, pages.fences, 7), lookup_query(spec, keys), fence_query(spec, 100)):
        text = reading.run(lambda connection, query=query: plan(connection, query))
        assert "Index" in text
        assert "Seq Scan" not in text
        assert "Cond" in text


def test_a_relation_travels_by_pickle(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k text PRIMARY KEY); INSERT INTO r SELECT 'k' || g FROM generate_series(1, 50) AS g")
    relation = open_relation("public.r", {"text": "k"}, {"k": "k"})
    again = pickle.loads(pickle.dumps(relation))
    assert all_tuples(again) == all_tuples(relation)


def _backend(url: str, answers: Any) -> None:
    answers.put(reading_connection(url).run(lambda connection: connection.info.backend_pid))


def test_a_forked_process_reads_through_a_connection_of_its_own(
    empty_database_url: str, execute: Execute, open_relation: Open
) -> None:
    execute("CREATE TABLE r (k int PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 50)")
    relation = open_relation("public.r", {"integer": "k"}, {"k": "k"})
    own = relation.connection.run(lambda connection: connection.info.backend_pid)
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_backend, args=(empty_database_url, answers))
    child.start()
    assert answers.get(timeout=60) != own
    child.join()
    assert relation.connection.run(lambda connection: connection.info.backend_pid) == own
    assert len(all_tuples(relation)) == 50
