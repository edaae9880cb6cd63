"""psql of an installation finds the passwords, and the list of processes does not."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from spark_jobs.local.psql_shell import run_psql


def test_no_password_is_on_the_command_line(postgres_database: str, capfd: pytest.CaptureFixture[str]) -> None:
    secrets = {"password": "S3CRET-1", "sslpassword": "S3CRET-2"}
    url = make_url(postgres_database).update_query_dict(secrets).render_as_string(hide_password=False)
    asked = (
        "-c",
        "SELECT 42 AS answer",
        "-c",
        "\\! tr '\\0' ' ' < /proc/$PPID/cmdline",
        "-c",
        "\\! cat $PGSERVICEFILE",
    )
    assert run_psql(url, asked) == 0
    told, _ = capfd.readouterr()
    assert "42" in told
    command_line = next(line for line in told.splitlines() if "--dbname" in line)
    assert "S3CRET" not in command_line.split("[freshet]")[0]
    assert "[freshet]\nsslpassword=S3CRET-2" in told
