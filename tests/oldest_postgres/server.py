"""A server of the oldest PostgreSQL that Freshet supports, as Debian packages it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.local.embedded_postgres.server import CONFIGURATION
from spark_jobs.local.embedded_postgres.server_user import identity, server_user
from spark_jobs.warehouse.connection import OLDEST

PROGRAMS = Path(f"/usr/lib/postgresql/{OLDEST}/bin")


class OldestPostgres:
    """It trusts every user of its socket, and only the tests' user can reach that.

    Args:
        data: data directory, which is made. Its path has to be short enough for a socket, and its folders open to
            the user that a server runs as where root runs the tests.
    """

    def __init__(self, data: Path) -> None:
        self.data = data

    def url(self, database: str = "postgres") -> str:
        """libpq URL of a database."""
        return f"postgresql://postgres@/{database}?host={self.data}"

    @contextmanager
    def running(self) -> Iterator[OldestPostgres]:
        """The server, for the time of the block."""
        self.data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self.data, server_user().pw_uid, server_user().pw_gid)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "postgres")
        own = {
            "unix_socket_directories": ".",
            "unix_socket_permissions": "0700",
            "listen_addresses": "",
            "fsync": "off",
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in {**CONFIGURATION, **own}.items())
        self._run("pg_ctl", "-w", "start", "-l", "server.log", "-o", options)
        try:
            yield self
        finally:
            self._run("pg_ctl", "-w", "stop", "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [PROGRAMS / program, "-D", self.data, *arguments],
            cwd=self.data,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            **identity(server_user()),
        )
