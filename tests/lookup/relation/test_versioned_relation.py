"""A relation that keeps versions, in PostgreSQL: what its catalog must say, its pages, its lookups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.relation_rows import RelationRows
from tests.lookup.conftest import Describe, Open, keys_for

Execute = Callable[..., None]

VALIDITY = ("valid_from", "valid_to")
# Three versions of each of 200 keys, as an operational system writes them: all first ones, then all second ones, ...
VERSIONS = """
    CREATE TABLE r (k bigint, part text COLLATE "C", valid_from timestamptz, valid_to timestamptz, sk int, name text);
    INSERT INTO r
    SELECT k, 'part ' || k % 7, '2026-01-01'::timestamptz + v * interval '1 day',
        CASE WHEN v < 2 THEN '2026-01-01'::timestamptz + (v + 1) * interval '1 day' END, k * 10 + v, 'name'
    FROM generate_series(0, 2) AS v, generate_series(1, 200) AS k;
"""


@pytest.fixture
def versions(execute: Execute) -> None:
    execute(VERSIONS)


def names(rows: RelationRows) -> dict[int, list[int]]:
    """sk of each version, by the tuple's key."""
    listed = rows.columns["versions"].to_pylist()
    found = [[version["fetched"]["sk"] for version in each] for each in listed]
    return {each[0] // 10: each for each in found}


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize("page_rows", [1, 2, 7, 50, 1000])
def test_all_versions_of_a_key_are_on_one_page(execute: Execute, open_relation: Open, page_rows: int) -> None:
    execute("CREATE UNIQUE INDEX ON r (k, valid_from)")
    relation = open_relation("public.r", {"integer": "k"}, {"sk": "sk"}, page_rows, VALIDITY)
    pages = [relation.read_pages(number).rows for number in range(relation.page_count)]
    found = {key: each for page in pages for key, each in names(page).items()}
    assert found == {key: [key * 10, key * 10 + 1, key * 10 + 2] for key in range(1, 201)}
    assert sum(len(page) for page in pages) == 200
    # A page has as many tuples of R as it should, however many versions they have.
    assert max(len(page) for page in pages) <= page_rows + 1
    for number, page in enumerate(pages):
        assert set(relation.page_of(page.keys).tolist()) == {number}


@pytest.mark.usefixtures("versions")
def test_pages_of_a_key_with_very_many_versions(execute: Execute, open_relation: Open) -> None:
    execute("INSERT INTO r SELECT 77, 'p', '2027-01-01'::timestamptz + g * interval '1 s', NULL, 770 FROM "
            "generate_series(1, 500) AS g; CREATE UNIQUE INDEX ON r (k, valid_from)")  # fmt: skip
    relation = open_relation("public.r", {"integer": "k"}, {"sk": "sk"}, 5, VALIDITY)
    pages = [relation.read_pages(number).rows for number in range(relation.page_count)]
    counts = Counter(key for page in pages for key in page.keys.codes.tolist())
    assert counts == dict.fromkeys(range(1, 201), 1)
    assert len(names(pages[int(relation.page_of(keys_for(relation, [77]))[0])])[77]) == 503


@pytest.mark.usefixtures("versions")
def test_a_lookup_finds_all_versions_of_composite_and_text_keys(execute: Execute, open_relation: Open) -> None:
    execute('CREATE UNIQUE INDEX ON r (part COLLATE "C", k, valid_from)')
    relation = open_relation("public.r", {"integer": "k", "text": "part"}, {"sk": "sk"}, 10, VALIDITY)
    assert relation.spec.stream_columns == ("text", "integer")
    page = relation.lookup_keys(keys_for(relation, ["part 3", "part 3", "part 4"], [3, 10, 10]))
    assert names(page.rows) == {3: [30, 31, 32], 10: [100, 101, 102]}
    assert len(page.keys) == 2


@pytest.mark.usefixtures("versions")
def test_versions_are_counted_into_the_size_of_a_tuple(execute: Execute, describe: Describe) -> None:
    execute("CREATE UNIQUE INDEX ON r (k, valid_from); CREATE TABLE plain AS SELECT * FROM r WHERE valid_to IS NULL; "
            "CREATE UNIQUE INDEX ON plain (k)")  # fmt: skip
    spec = describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY)
    assert spec.versions_per_key == 3
    assert spec.row_count == 200
    plain = describe("public.plain", {"integer": "k"}, {"sk": "sk"})
    assert plain.tuple_bytes + 3 * (8 + 8) <= spec.tuple_bytes <= plain.tuple_bytes + 3 * (8 + 8 + 4 + 2) + 8


def test_an_empty_relation_of_versions_still_says_what_a_tuple_takes(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k int, valid_from date, valid_to date, sk int, UNIQUE (k, valid_from))")
    spec = describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY)
    assert (spec.row_count, spec.versions_per_key) == (0, 1)
    assert spec.tuple_bytes >= 8 + 16 + 4


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(
    "indexes",
    [
        "ALTER TABLE r ADD PRIMARY KEY (k, valid_from)",
        "CREATE UNIQUE INDEX ON r (valid_from, k); CREATE INDEX ON r (k, valid_to)",
        "DELETE FROM r WHERE valid_to IS NOT NULL; CREATE UNIQUE INDEX ON r (k)",
    ],
)
def test_versions_are_found_by_an_index_that_begins_with_the_key(
    execute: Execute, describe: Describe, indexes: str
) -> None:
    execute(indexes)
    assert describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY).page_refusal is None


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(
    ("indexes", "advice"),
    [
        ("", r"than one version that began at the same time; .* CREATE UNIQUE INDEX ON public\.r \(k, valid_from\)"),
        ("CREATE INDEX ON r (k, valid_from)", r"CREATE UNIQUE INDEX ON public\.r \(k, valid_from\)"),
        ("CREATE UNIQUE INDEX ON r (k, valid_from, sk)", r"CREATE UNIQUE INDEX ON public\.r \(k, valid_from\)"),
        ("CREATE UNIQUE INDEX ON r (valid_from, k)", r"no index begins with \(k\), .* CREATE INDEX ON public\.r \(k\)"),
    ],
)  # fmt: skip
def test_a_missing_index_is_told(execute: Execute, describe: Describe, indexes: str, advice: str) -> None:
    if indexes:
        execute(indexes)
    with pytest.raises(SchemaMismatchError, match=advice):
        describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY)


@pytest.mark.parametrize(
    ("exclusion", "suffices"),
    [
        ("k WITH =, tstzrange(valid_from, valid_to) WITH &&", True),
        ("tstzrange(valid_from, valid_to) WITH &&, k WITH =", True),
        ("k WITH =, part WITH =, tstzrange(valid_from, valid_to) WITH &&", False),
        ("k WITH =, tstzrange(valid_from, valid_to) WITH &&, int4range(sk, sk) WITH &&", False),
        ("k WITH =, int4range(sk, sk) WITH &&", False),
        ("k WITH =, valid_from WITH <>", False),
    ],
)
def test_an_exclusion_constraint_may_keep_versions_apart(
    execute: Execute, describe: Describe, exclusion: str, suffices: bool
) -> None:
    execute(f"""
        CREATE EXTENSION btree_gist;
        CREATE TABLE r (k bigint, part int, valid_from timestamptz, valid_to timestamptz, sk int,
            EXCLUDE USING gist ({exclusion}));
    """)
    advice = r"no index begins with \(k\)" if suffices else "no unique index"
    with pytest.raises(SchemaMismatchError, match=advice):
        describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY)
    if suffices:
        execute("CREATE INDEX ON r (k)")
        assert describe("public.r", {"integer": "k"}, {"sk": "sk"}, VALIDITY).validity.begin.name == "valid_from"


def test_all_that_is_wrong_with_a_validity_is_told_at_once(execute: Execute, describe: Describe) -> None:
    execute("CREATE TABLE r (k bigint, valid_from time, valid_until date, sk int, UNIQUE (k, valid_from))")
    with pytest.raises(SchemaMismatchError) as caught:
        describe("public.r", {"integer": "k"}, {"sk": "sx"}, VALIDITY)
    for part in [
        "column valid_from is time without time zone; the validity of versions can be timestamptz, timestamp or date",
        "the relation has no column valid_to. Did you mean ",
        "the relation has no column sx. It has k,",
    ]:
        assert part in str(caught.value)
