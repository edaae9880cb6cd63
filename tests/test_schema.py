import psycopg2

from spark_jobs.warehouse.migration import migrate


def test_migrating_twice_changes_nothing(warehouse_url: str) -> None:
    before = _tables(warehouse_url)
    migrate(warehouse_url)
    assert _tables(warehouse_url) == before
    assert {"batch", "held_tuple", "pipeline", "reprocessing_run", "validation"} <= before


def _tables(url: str) -> set[str]:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'freshet'")
        return {name for (name,) in cursor.fetchall()}
