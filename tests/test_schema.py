import psycopg2

from spark_jobs.warehouse.migration import migrate


def test_migrating_twice_changes_nothing(warehouse_url: str) -> None:
    migrate(warehouse_url)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'freshet'")
        assert cursor.fetchone() == (9,)
