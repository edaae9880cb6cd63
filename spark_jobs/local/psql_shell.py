"""psql on the warehouse of an installation: the machine's own, or the embedded server's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence

from psycopg2 import extensions

from spark_jobs.errors import PlatformError
from spark_jobs.local.embedded_postgres.server_user import programs, starting_user


def run_psql(url: str, arguments: Sequence[str]) -> int:
    """Run psql with a terminal, or with what is piped into it, until it ends.

    Args:
        url: libpq URL of the warehouse.
        arguments: psql's own, besides.

    Returns:
        its exit status.

    Raises:
        PlatformError: there is no psql.
    """
    program = shutil.which("psql") or programs(starting_user()) / "psql"
    if not os.path.exists(program):
        raise PlatformError("There is no psql on this machine; install PostgreSQL's client programs.")
    settings = extensions.parse_dsn(url)
    password = settings.pop("password", None)  # others may read a command line
    environment = os.environ | ({} if password is None else {"PGPASSWORD": password})
    quiet = ["--no-psqlrc", "--set=ON_ERROR_STOP=1"] if arguments or not os.isatty(0) else []
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is psql's, which ends a query with it
    try:
        command = [str(program), *quiet, *arguments, "--dbname", extensions.make_dsn(**settings)]
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, interrupt)
