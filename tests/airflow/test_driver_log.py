"""What the page shows of a driver's log."""

from __future__ import annotations

import pytest
from freshet_airflow.freshness_page.driver_log import log_end

from spark_jobs.settings import Home


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("at postgresql://etl:s3cret@host/db", "at postgresql://etl:***@host/db"),
        ("at postgresql://etl:s3/c@r3t@host/db", "at postgresql://etl:***@host/db"),
        ('{"password": "s3 cret", "user": "etl"}', '{"password": ***, "user": "etl"}'),
        ("sasl.password=s3cret sasl.username=etl", "sasl.password=*** sasl.username=etl"),
        ("Token : s3cret", "Token : ***"),
        ("at http://host:8080/a, 3 files", "at http://host:8080/a, 3 files"),
        ("a\u2028b \x1b[2J \u202e", r"a\u2028b \x1b[2J \u202e"),
    ],
)
def test_secrets_are_masked(home: Home, line: str, shown: str) -> None:
    log = home.driver_log("orders")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"before\n{line}\nafter\n")
    assert log_end(str(log)) == ["before", shown, "after"]


@pytest.mark.parametrize("name", ["airflow-api-server.log", "tasks/driver-orders.log", "../driver-orders.log"])
def test_no_other_log_is_shown_whatever_the_warehouse_names(home: Home, name: str) -> None:
    log = home.logs / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("somebody's requests")
    (line,) = log_end(str(log))
    assert line.startswith("(it is not among the drivers' logs")
