import psycopg2
import sqlalchemy
from alembic import command
from alembic.config import Config

from spark_jobs.control.migration import migrate
from spark_jobs.control.roles import MIGRATOR
from spark_jobs.settings import PROJECT_ROOT


def test_migrating_twice_changes_nothing(warehouse_url: str) -> None:
    before = _tables(warehouse_url)
    migrate(warehouse_url)
    assert _tables(warehouse_url) == before
    assert {"batch", "held_tuple", "pipeline", "reprocessing_run", "validation"} <= before


def test_going_back_and_forth_leaves_a_function_for_triggers_that_nobody_else_may_run(warehouse_url: str) -> None:
    newest = _function(warehouse_url)
    _downgrade(warehouse_url, "0007")
    former = _function(warehouse_url)
    assert former != newest
    migrate(warehouse_url)
    assert _function(warehouse_url) == newest
    assert {is_public for _, is_public in (newest, former)} == {False}


def _downgrade(url: str, revision: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg2"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"SET LOCAL ROLE {MIGRATOR}"))
        configuration = Config()
        configuration.set_main_option("script_location", str(PROJECT_ROOT / "warehouse_schema"))
        configuration.attributes["connection"] = connection
        command.downgrade(configuration, revision)
    engine.dispose()


def _function(url: str) -> tuple[str, bool]:
    """The text of the triggers' function, and whether every role may run it."""
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT prosrc, proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0) FROM pg_proc "
            "WHERE oid = to_regproc('freshet.note_relation_change')"
        )
        [found] = cursor.fetchall()
    return found


def _tables(url: str) -> set[str]:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'freshet'")
        return {name for (name,) in cursor.fetchall()}
