"""`freshet migrate` makes the schema, finds nothing to do in a new one, and says what an older one needs."""

from __future__ import annotations

import psycopg2
import pytest
from alembic.script import ScriptDirectory

from spark_jobs.control.migration import migrate
from spark_jobs.errors import SchemaVersionError
from spark_jobs.settings import SHIPPED


def _query(url: str, statement: str) -> list[tuple]:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_migrating_twice_changes_nothing(warehouse_url: str) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'freshet' ORDER BY 1"
    before = _query(warehouse_url, tables)
    migrate(warehouse_url)
    assert _query(warehouse_url, tables) == before
    assert {"batch", "held_tuple", "pipeline", "reprocessing_run", "validation"} <= {name for (name,) in before}


def test_nobody_else_may_run_the_triggers_function(warehouse_url: str) -> None:
    found = _query(
        warehouse_url,
        "SELECT proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0) FROM pg_proc "
        "WHERE oid = 'freshet.note_relation_change'::regproc",
    )
    assert found == [(False,)]


@pytest.mark.parametrize("revision", ["0001", "0029"])
def test_a_schema_older_than_the_baseline_is_sent_to_the_release_that_knows_it(
    warehouse_url: str, revision: str
) -> None:
    _query(warehouse_url, f"UPDATE freshet.schema_version SET version_num = '{revision}'")
    with pytest.raises(SchemaVersionError, match=rf"at revision {revision}\..* revision 0030,.* 0\.2\.0") as raised:
        migrate(warehouse_url)
    assert "git checkout 77d00b4" in str(raised.value)
    assert _query(warehouse_url, "SELECT version_num FROM freshet.schema_version") == [(revision,)]


def test_a_schema_of_a_newer_version_is_left_alone(warehouse_url: str) -> None:
    _query(warehouse_url, "UPDATE freshet.schema_version SET version_num = '9999'")
    with pytest.raises(SchemaVersionError, match=r"at revision 9999.* a newer one has migrated it"):
        migrate(warehouse_url)


def test_the_migrations_are_one_row_from_the_baseline_on() -> None:
    scripts = ScriptDirectory(str(SHIPPED / "warehouse_schema"))
    revisions = [script.revision for script in scripts.walk_revisions()][::-1]
    assert revisions[0] == scripts.get_base() == "0030"
    assert revisions == [f"{number:04}" for number in range(30, 30 + len(revisions))]
