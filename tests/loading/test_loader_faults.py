"""Loading when the server goes away, the connection breaks, or PostgreSQL refuses what was not foreseen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.copy_encoding.rows import CopyStream
from spark_jobs.control.migration import migrate
from spark_jobs.definition.fates import SHED
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import LoadBlockedError, SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.loading.loader import Loader
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from tests.loading.cutting_proxy import Cut, CuttingProxy
from tests.loading.stream import Stream

BOTH_WAYS = pytest.mark.parametrize("careful", [False, True], ids=["optimistic", "careful"])


@contextmanager
def during_copy(monkeypatch: pytest.MonkeyPatch, event: Callable[[], None]) -> Iterator[None]:
    """Have something happen once, while PostgreSQL takes tuples."""
    read, happened = CopyStream.read, []

    def read_after_event(stream: CopyStream, size: int = -1, /) -> bytes:
        if not happened:
            happened.append(True)
            event()
        return read(stream, size)

    with monkeypatch.context() as patch:
        patch.setattr(CopyStream, "read", read_after_event)
        yield
    assert happened


# The server goes away


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("server") / "postgres").use() as server:
        migrate(server.url())
        yield server


@pytest.fixture
def restartable(own_server: EmbeddedPostgres) -> Iterator[Stream]:
    connection = psycopg2.connect(own_server.url())
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE freshet.pipeline, freshet.held_tuple CASCADE;"
            "DROP SCHEMA warehouse CASCADE; CREATE SCHEMA warehouse"
        )
    connection.close()
    stream = Stream(own_server.url())
    yield stream
    stream.close()


def reconnect(stream: Stream) -> None:
    """What the driver does after a restart."""
    stream.connection.close()
    stream.connection = psycopg2.connect(stream.url)


@BOTH_WAYS
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_in_the_middle_of_a_load_is_survived(
    restartable: Stream, own_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, mode: str, careful: bool
) -> None:
    restartable.load(restartable.facts(range(100)), restartable.held(range(200, 250)))
    batch_no = restartable.open()
    loader = restartable.loader(batch_no, careful=careful)
    loader.load(restartable.facts(range(100, 200)))
    rest = Outcome(restartable.orders(range(150, 300)), restartable.held(range(300, 310)).held)
    with during_copy(monkeypatch, lambda: own_server.restart(mode)):
        counts = loader.load(rest)
    assert (counts.shed, counts.facts + counts.duplicates) == (10, 150)
    reconnect(restartable)
    if mode == "immediate":  # what the batch had committed before may be lost: it is loaded again
        again = restartable.loader(batch_no, careful=True)
        again.load(restartable.facts(range(100, 200)))
        again.load(rest)
    restartable.close_batch(batch_no)
    restartable.check()
    assert restartable.fact_ids() == [*range(200), *range(250, 300)]


def test_a_restart_between_two_loads_is_survived(restartable: Stream, own_server: EmbeddedPostgres) -> None:
    batch_no = restartable.open()
    loader = restartable.loader(batch_no)
    loader.load(restartable.facts([1]))
    own_server.restart()
    assert loader.load(restartable.facts([2])) == LoadCounts(facts=1)
    reconnect(restartable)
    restartable.close_batch(batch_no)
    restartable.check()


def test_a_server_that_stays_away_is_an_error(
    restartable: Stream, own_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_no = restartable.open()
    own_server.stop()
    loader = Loader(
        restartable.url + "&password=geheim",
        StreamBatch(restartable.event, restartable.fact, restartable.epoch, batch_no),
        patience=timedelta(milliseconds=100),
    )
    with pytest.raises(WarehouseUnavailableError, match="can't be reached") as caught:
        loader.load(restartable.facts([1]))
    assert "geheim" not in str(caught.value)
    own_server.start()
    assert loader.load(restartable.facts([1])) == LoadCounts(facts=1)


# The connection breaks


@BOTH_WAYS
def test_a_session_ended_in_the_middle_of_a_load_is_replaced(
    orders: Stream, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    def end_session() -> None:
        orders.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'freshet load orders' AND datname = current_database()"
        )

    batch_no = orders.open()
    with during_copy(monkeypatch, end_session):
        assert orders.loader(batch_no, careful=careful).load(orders.facts(range(9))) == LoadCounts(facts=9)
    orders.close_batch(batch_no)
    orders.check()


@pytest.fixture
def cut_off(orders: Stream, request: pytest.FixtureRequest) -> Iterator[tuple[Stream, CuttingProxy]]:
    """A pipeline whose loaders reach the warehouse through a proxy that loses their first commit."""
    info = orders.connection.info
    proxy = CuttingProxy(f"{info.host}/.s.PGSQL.{info.port}", request.param)
    orders.url = f"postgresql://{info.user}@127.0.0.1:{proxy.port}/{info.dbname}"
    yield orders, proxy
    proxy.close()


@pytest.mark.parametrize("cut_off", list(Cut), ids=lambda cut: cut.name, indirect=True)
def test_a_connection_lost_at_the_commit_loses_and_doubles_nothing(cut_off: tuple[Stream, CuttingProxy]) -> None:
    orders, proxy = cut_off
    batch_no = orders.open()
    loaded = Outcome(orders.orders([1, 2]), orders.held([3]).held)
    # Even the counts are those of one load: the transaction itself recorded that it was committed.
    assert orders.loader(batch_no).load(loaded) == LoadCounts(facts=2, shed=1)
    assert proxy.cuts
    orders.close_batch(batch_no)
    orders.check()
    assert orders.query("SELECT facts, shed, duplicates FROM freshet.batch") == [(2, 1, 0)]


# PostgreSQL refuses tuples


def refusing(clean_warehouse: str, ddl: str) -> Stream:
    return Stream(clean_warehouse, f"CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, n bigint); {ddl}",
                  {"id": pa.int64(), "n": pa.int64()})  # fmt: skip


REFUSALS = {
    "check": ("ALTER TABLE warehouse.fact ADD CONSTRAINT not_five CHECK (n % 5 <> 0)", "violates check constraint"),
    "foreign key": (
        "CREATE TABLE warehouse.other (n bigint PRIMARY KEY); INSERT INTO warehouse.other "
        "SELECT n FROM generate_series(0, 99) n WHERE n % 5 <> 0;"
        "ALTER TABLE warehouse.fact ADD FOREIGN KEY (n) REFERENCES warehouse.other",
        'is not present in table "other"',
    ),
    "deferred foreign key": (
        "CREATE TABLE warehouse.other (n bigint PRIMARY KEY); INSERT INTO warehouse.other "
        "SELECT n FROM generate_series(0, 99) n WHERE n % 5 <> 0;"
        "ALTER TABLE warehouse.fact ADD FOREIGN KEY (n) REFERENCES warehouse.other INITIALLY DEFERRED",
        'is not present in table "other"',
    ),
    "trigger that raises": (
        "CREATE FUNCTION warehouse.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.n % 5 = 0 THEN RAISE 'no multiples of five'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.refuse()",
        "no multiples of five",
    ),
    "trigger that drops": (
        "CREATE FUNCTION warehouse.drop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.n % 5 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER drop BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.drop()",
        "a trigger of the table drops it",
    ),
    "trigger with a code of its own": (
        "CREATE FUNCTION warehouse.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n % 5 = 0 THEN "
        "RAISE 'no multiples of five' USING ERRCODE = 'FR001'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.refuse()",
        "no multiples of five [SQLSTATE FR001]",
    ),
    "failed assertion": (
        "CREATE FUNCTION warehouse.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN ASSERT NEW.n % 5 <> 0, 'no multiples of five'; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.refuse()",
        "no multiples of five",
    ),
    "division by zero": (
        "ALTER TABLE warehouse.fact ADD quotient bigint GENERATED ALWAYS AS (1000 / (n % 5)) STORED",
        "division by zero",
    ),
}  # fmt: skip


@BOTH_WAYS
@pytest.mark.parametrize("kind", REFUSALS)
def test_what_postgresql_refuses_is_rejected_with_its_words(clean_warehouse: str, kind: str, careful: bool) -> None:
    ddl, words = REFUSALS[kind]
    stream = refusing(clean_warehouse, ddl)
    rows = [{"id": 1_000 + n, "n": n} for n in range(1, 32)]
    assert stream.load(Outcome(stream.tuples(rows)), careful=careful) == LoadCounts(facts=25, rejected=6)
    assert set(stream.held_reasons()) == {f"[{1_000 + n}]" for n in range(5, 32, 5)}
    assert all(words in reason for reason in stream.held_reasons().values())
    # The same again, with duplicates of both kinds among new tuples.
    more = [*rows, {"id": 1_040, "n": 40}, {"id": 1_041, "n": 41}]
    assert stream.load(Outcome(stream.tuples(more)), careful=careful) == LoadCounts(1, 0, 0, 1, 31)
    stream.check()
    stream.close()


@BOTH_WAYS
def test_another_unique_constraint_rejects_instead_of_swallowing(clean_warehouse: str, careful: bool) -> None:
    stream = refusing(clean_warehouse, "ALTER TABLE warehouse.fact ADD CONSTRAINT one_n UNIQUE (n)")
    stream.load(Outcome(stream.tuples([{"id": 1, "n": 1}])), careful=careful)
    rows = [{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 3}, {"id": 4, "n": 3}]
    assert stream.load(Outcome(stream.tuples(rows)), careful=careful) == LoadCounts(1, 0, 0, 2, 1)
    assert set(stream.held_reasons()) == {"[2]", "[4]"}
    assert (
        'violates unique constraint "one_n" (Key (n)=(1) already exists.) [SQLSTATE 23505]'
        in (stream.held_reasons()["[2]"])
    )
    stream.check()
    stream.close()


def test_a_refused_tuple_keeps_its_other_tuples_company_in_the_same_transaction(clean_warehouse: str) -> None:
    stream = refusing(clean_warehouse, REFUSALS["check"][0])
    batch_no = stream.open()
    held = [Held(SHED, "no time", None, stream.tuples([{"id": 7, "n": 7}, {"id": 1, "n": 1}]))]
    outcome = Outcome(stream.tuples([{"id": n, "n": n} for n in (1, 5, 5, 2, 1)]), held)
    assert stream.loader(batch_no).load(outcome) == LoadCounts(facts=2, shed=1, rejected=1, duplicates=3)
    stream.close_batch(batch_no)
    stream.check()
    stream.close()


@pytest.mark.parametrize("condition", ["disk_full", "out_of_memory", "read_only_sql_transaction", "query_canceled"])
def test_what_the_server_can_not_do_for_now_is_no_tuple_s_fault(orders: Stream, condition: str) -> None:
    batch_no = orders.open()
    orders.query(
        "CREATE FUNCTION warehouse.full() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE 'not now' USING ERRCODE = '{condition}'; END $$;"
        "CREATE TRIGGER f BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.full()"
    )
    with pytest.raises(LoadBlockedError, match="not now"):
        orders.loader(batch_no).load(orders.facts([1]))
    orders.query("DROP TRIGGER f ON warehouse.fact")
    assert orders.loader(batch_no).load(orders.facts([1])) == LoadCounts(facts=1)


MENDED_LATER = {
    "missing partition": (
        "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, n bigint) PARTITION BY RANGE (id);"
        "CREATE TABLE warehouse.april PARTITION OF warehouse.fact FOR VALUES FROM (0) TO (20)",
        "SELECT 1",
        "CREATE TABLE warehouse.may PARTITION OF warehouse.fact FOR VALUES FROM (20) TO (1000)",
        'no partition of relation "fact" found for row',
    ),
    "check": (
        "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, n bigint CONSTRAINT small CHECK (n < 20))",
        "SELECT 1",
        "ALTER TABLE warehouse.fact DROP CONSTRAINT small",
        'violates check constraint "small"',
    ),
    "not null": (
        "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, n bigint)",
        "ALTER TABLE warehouse.fact ADD m bigint NOT NULL",
        "ALTER TABLE warehouse.fact ALTER m DROP NOT NULL",
        'null value in column "m"',
    ),
}


@BOTH_WAYS
@pytest.mark.parametrize("kind", MENDED_LATER)
def test_what_refuses_most_of_a_chunk_is_the_table_and_rejects_nothing(
    clean_warehouse: str, kind: str, careful: bool
) -> None:
    ddl, later, mended, words = MENDED_LATER[kind]
    stream = Stream(clean_warehouse, ddl, {"id": pa.int64(), "n": pa.int64()})
    stream.query(later)
    batch_no = stream.open()
    outcome = Outcome(stream.tuples([{"id": n, "n": n} for n in range(1_000)]))
    with pytest.raises(LoadBlockedError, match=r"warehouse\.fact refuses \d+ of \d+ tuples") as caught:
        stream.loader(batch_no, careful=careful).load(outcome)
    assert words in str(caught.value)
    assert (stream.fact_ids(), stream.held_reasons()) == ([], {})
    stream.query(mended)
    assert stream.loader(batch_no, careful=careful).load(outcome) == LoadCounts(facts=1_000)
    stream.close_batch(batch_no)
    stream.check()
    stream.close()


def test_values_that_most_of_a_chunk_has_too_large_for_the_column_are_no_reason_to_reject_it(orders: Stream) -> None:
    batch_no = orders.open()
    rows = [{"id": n, "amount": 10_000_000 + n} for n in range(30)] + [{"id": 100 + n, "amount": 1} for n in range(29)]
    with pytest.raises(LoadBlockedError, match=r"30 of 59 tuples for one reason: column amount"):
        orders.loader(batch_no).load(Outcome(orders.tuples(rows)))
    assert orders.loader(batch_no).load(Outcome(orders.tuples(rows[1:]))) == LoadCounts(facts=29, rejected=29)


def test_a_few_refused_tuples_are_rejected_even_where_they_are_all_there_are(clean_warehouse: str) -> None:
    stream = refusing(clean_warehouse, REFUSALS["check"][0])
    assert stream.load(Outcome(stream.tuples([{"id": n, "n": 5} for n in range(19)]))) == LoadCounts(rejected=19)
    stream.close()


def test_most_of_a_chunk_is_rejected_where_the_pipeline_asks_for_it(clean_warehouse: str) -> None:
    stream = refusing(clean_warehouse, REFUSALS["check"][0])
    stream.fact = replace(stream.fact, on_refused="reject")
    assert stream.load(Outcome(stream.tuples([{"id": n, "n": 5} for n in range(500)]))) == LoadCounts(rejected=500)
    stream.check()
    stream.close()


def test_many_tuples_refused_for_reasons_of_their_own_are_rejected(clean_warehouse: str) -> None:
    constraints = ", ".join(f"ADD CONSTRAINT not_{k} CHECK (n % 4 <> {k})" for k in range(3))
    stream = refusing(clean_warehouse, f"ALTER TABLE warehouse.fact {constraints}")
    rows = [{"id": n, "n": n} for n in range(2_000)]
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(facts=500, rejected=1_500)
    stream.check()
    stream.close()


def test_a_role_that_lost_its_rights_is_no_tuple_s_fault(orders: Stream) -> None:
    orders.query(
        "CREATE FUNCTION warehouse.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'permission denied' USING ERRCODE = 'insufficient_privilege'; END $$;"
        "CREATE TRIGGER f BEFORE INSERT ON warehouse.fact FOR EACH ROW EXECUTE FUNCTION warehouse.refuse()"
    )
    with pytest.raises(SchemaMismatchError, match="permission denied"):
        orders.loader(orders.open()).load(orders.facts([1]))
