"""Who may connect to an embedded PostgreSQL."""

from __future__ import annotations

import pwd
from pathlib import Path

from spark_jobs.local.private_file import write_private

_HEAD = "# Written anew by Freshet whenever it starts this server.\n"


def write_access(data: Path, starting: pwd.struct_passwd, server: pwd.struct_passwd, *, by_tcp: bool) -> None:
    """Let whoever starts the server be any user of it, and nobody else in; what was allowed before no longer counts.

    The kernel tells who is at the other end of the Unix socket: no password is needed, and none can be lost.

    Args:
        data: data directory.
        starting: whoever starts the server.
        server: who it runs as, and reads these files.
        by_tcp: users of the server that have a password may come over TCP.
    """
    rules = ["local all all peer map=freshet"]
    if by_tcp:
        rules.append("host all all 127.0.0.1/32 scram-sha-256")
    for name, lines in (("pg_hba.conf", rules), ("pg_ident.conf", [f'freshet "{starting.pw_name}" all'])):
        write_private(data / name, _HEAD + "".join(f"{line}\n" for line in lines), owner=server.pw_uid)
