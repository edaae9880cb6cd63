"""psql on the warehouse of an installation: the machine's own, or the embedded server's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    quiet = ["--no-psqlrc", "--set=ON_ERROR_STOP=1"] if arguments or not os.isatty(0) else []
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is psql's, which ends a query with it
    try:
        # Others may read a command line.
        with _secrets_apart(settings) as environment:
            command = [str(program), *quiet, *arguments, "--dbname", extensions.make_dsn(**settings)]
            return subprocess.run(command, env=os.environ | environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, interrupt)


@contextmanager
def _secrets_apart(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    """Take the passwords out of a connection's settings; gives the environment in which libpq finds them."""
    environment = {}
    if "password" in settings:
        environment["PGPASSWORD"] = settings.pop("password")
    if "sslpassword" not in settings:
        yield environment
        return
    # No variable holds it; a file of services, which knows this one only, does.
    with tempfile.NamedTemporaryFile("w", prefix="freshet-", encoding="utf-8") as services:  # mode 0600
        services.write(f"[freshet]\nsslpassword={settings.pop('sslpassword')}\n")
        services.flush()
        settings["service"] = "freshet"
        yield environment | {"PGSERVICEFILE": services.name}
