"""Who may connect to an embedded PostgreSQL, and the folder of its Unix socket."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import stat
from pathlib import Path

from spark_jobs.errors import PlatformError
from spark_jobs.private_files import write_private

_HEAD = "# Written anew by Freshet whenever it starts this server.\n"

_SHORT = Path("/tmp")
_LONGEST = 103  # bytes of a socket's path on macOS; Linux takes four more


def write_access(data: Path, starting: pwd.struct_passwd, server: pwd.struct_passwd, *, by_tcp: bool) -> None:
    """Let the user who starts the server in, as any user of it, and no other; what was allowed before no longer counts.

    The kernel tells who is at the other end of the Unix socket: no password is needed, and none can be lost.

    Args:
        data: data directory.
        starting: the user who starts the server.
        server: who it runs as, and reads these files.
        by_tcp: users of the server that have a password may come over TCP.
    """
    rules = ["local all all peer map=freshet"]
    if by_tcp:
        rules.append("host all all 127.0.0.1/32 scram-sha-256")
    for name, lines in (("pg_hba.conf", rules), ("pg_ident.conf", [f'freshet "{starting.pw_name}" all'])):
        write_private(data / name, _HEAD + "".join(f"{line}\n" for line in lines), owner=server.pw_uid)


def socket_folder(data: Path, user: pwd.struct_passwd) -> Path:
    """The data directory; where its path is too long for a socket, a folder of the server's own in /tmp.

    Both are of mode 0700. The same data directory always gets the same folder.

    Args:
        data: data directory.
        user: who the server runs as, and who the folder belongs to.

    Raises:
        PlatformError: another user has a folder of that name in /tmp.
    """
    folder = _name(data, user)
    if folder == data:
        return data
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if user.pw_uid != os.geteuid():
            os.chown(folder, user.pw_uid, user.pw_gid)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user.pw_uid or stat.S_IMODE(found.st_mode) != 0o700:
        raise PlatformError(
            f"{folder} is no folder of mode 0700 that belongs to {user.pw_name}: another user could get at the "
            f"socket of the PostgreSQL server on {data}. Remove it, or choose a FRESHET_HOME with a shorter path."
        )
    return folder


def leave_socket_folder(data: Path, user: pwd.struct_passwd) -> None:
    """Remove the folder that `socket_folder` has made, once the server has stopped."""
    folder = _name(data, user)
    if folder != data:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _name(data: Path, user: pwd.struct_passwd) -> Path:
    if len(os.fsencode(data / ".s.PGSQL.65535")) <= _LONGEST:
        return data
    return _SHORT / f"freshet-{user.pw_uid}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
