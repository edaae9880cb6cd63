"""Loopback is shared by all users of a machine: what listens there takes nothing from whoever has no secret."""

from __future__ import annotations

import socket
import stat
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark_jobs.driver.scratch import scratch_folder, sockets_folder
from spark_jobs.private_files import make_private
from spark_jobs.settings import Home

RPC_REQUEST, ONE_WAY = 3, 9
# How a Java object begins, and a class that the first bytes name: enough for a reader to say what it makes of it.
JAVA_OBJECT = b"\xac\xed\x00\x05sr\x00\x17java.util.PriorityQueue"


def frames() -> Iterator[bytes]:
    """Messages of Spark's transport that carry a Java object, each of the kinds that reach a deserialiser."""
    for kind, request in ((RPC_REQUEST, struct.pack(">q", 1)), (ONE_WAY, b"")):
        message = struct.pack(">B", kind) + request + struct.pack(">i", len(JAVA_OBJECT)) + JAVA_OBJECT
        yield struct.pack(">q", 8 + len(message)) + message


def answer(port: int, frame: bytes) -> bytes:
    """All that a port answers to a frame until it closes, or is silent."""
    answered = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(frame)
        connection.settimeout(5)
        try:
            while content := connection.recv(65536):
                answered += content
        except (TimeoutError, ConnectionError):
            pass
    return answered


def listening_ports() -> list[int]:
    """Of this process's Java, and of all that it has started."""
    java = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    found = [each for process in java for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    assert {each.laddr.ip.removeprefix("::ffff:") for each in found} == {"127.0.0.1"}
    return [each.laddr.port for each in found]


def test_no_port_of_a_driver_takes_a_message_without_the_secret(spark: Any) -> None:
    spark.parallelize([None], 1).count()  # all that listens does so
    asked = [(port, frame) for port in listening_ports() for frame in frames()]
    with ThreadPoolExecutor(len(asked)) as beside:  # one that is silent is waited for
        told = list(beside.map(answer, *zip(*asked, strict=True)))
    answers = list(zip(asked, told, strict=True))
    assert sum(b"Expected SaslMessage" in text for text in told) == 2, answers  # RPC and block manager
    assert not [text for text in told if b"java.io" in text or b"RequestMessage" in text], answers


def test_pythons_tasks_report_where_no_other_user_can_connect(spark: Any) -> None:
    assert spark.parallelize([1, 2], 2).map(lambda each: each + 1).collect() == [2, 3]
    reports = Path(spark._accumulatorServer.server_address)
    assert stat.S_IMODE(reports.parent.stat().st_mode) == 0o700
    children = psutil.Process().children(recursive=True)
    living = [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
    workers = [each for each in living if "spark_jobs.stages.worker_daemon" in each.cmdline()]
    assert workers
    listening = [each for process in workers for each in process.net_connections("inet") if each.status == "LISTEN"]
    assert listening == []


def test_sparks_own_pages_are_closed(spark: Any) -> None:
    assert spark.uiWebUrl is None


def test_what_spark_exchanges_lies_where_nobody_else_can_look(tmp_path: Path, spark: Any) -> None:
    folder = Path(spark.getConf().get("spark.local.dir"))
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700, 0o700]
    spark.parallelize([(1, 1)] * 100, 2).groupByKey(2).count()
    assert list(folder.rglob("shuffle_*"))


def test_what_a_killed_driver_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    home = Home(tmp_path)
    make_private(home)
    (mine := scratch_folder(home)).joinpath("shuffle_0").touch()
    host = socket.gethostname()
    (left := home.spark / f"{host}-1-1").mkdir()  # another process has this id today
    (gone := home.spark / f"{host}-99999999-1").mkdir()
    sockets = sockets_folder(gone)
    (sockets / "a.sock").touch()
    (elsewhere := home.spark / "another.host-99999999-1").mkdir()
    assert scratch_folder(home) == mine
    assert [each.exists() for each in (left, gone, elsewhere, mine / "shuffle_0")] == [False, False, True, True]
    assert not sockets.exists()


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_home_that_others_may_read_is_closed_but_for_what_lands_there(tmp_path: Path, mode: int) -> None:
    home = Home(tmp_path / "home")
    (home.root / "state" / "sales").mkdir(parents=True)
    (home.java / "of others").mkdir(parents=True)
    home.java.chmod(mode)
    home.landing("sales").mkdir(parents=True)
    for folder in (home.root, home.root / "state", home.landing("sales").parent):
        folder.chmod(mode)
    make_private(home)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in home.root.iterdir()}
    assert modes.pop("landing") == mode
    assert set(modes.values()) == {0o700}
    assert stat.S_IMODE(home.root.stat().st_mode) == mode
    assert list(home.java.iterdir()) == []  # it may be another user's, and would be run
    assert (home.root / "state" / "sales").exists()
