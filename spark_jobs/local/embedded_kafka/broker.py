"""A broker of Kafka on this machine: one node of KRaft, from Maven Central's jars, on the Java that Spark runs on."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spark_jobs.driver.java import java_program
from spark_jobs.errors import PlatformError
from spark_jobs.launch.session_process import SessionProcess, log_tail, stop_sessions
from spark_jobs.local.embedded_kafka.jars import kafka_jars
from spark_jobs.local.keeper import Keeper

START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_HEAP = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
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
    # A broker that was killed may come back when it is taken for dead.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


class KafkaBroker:
    """A broker that listens on loopback only; it lives as long as it is used.

    Args:
        folder: its data; made where it does not exist. A broker that a killed process has left there is ended.
        log: its output.
        settings: of the broker, besides ours.
        listener: a further listener, as Kafka calls its protocol: SASL_SSL, say; the settings are to say the rest.

    Attributes:
        folder: its data.
        servers: where clients find it; the same for one folder, as far as the port is free.
        further_servers: where the further listener is.
    """

    def __init__(
        self, folder: Path, log: Path, settings: Mapping[str, str] | None = None, listener: str | None = None
    ) -> None:
        self.folder = folder.resolve()
        self._log = log
        self._process = SessionProcess.recorded("kafka", self._record)
        self.stop()
        controller, port, further = _free_ports(self._former_ports())
        self.servers, self.further_servers = f"127.0.0.1:{port}", f"127.0.0.1:{further}"
        advertised = f"PLAINTEXT://{self.servers}" + (f",{listener}://{self.further_servers}" if listener else "")
        self._settings = {
            **_SETTINGS,
            "listeners": f"CONTROLLER://127.0.0.1:{controller},{advertised}",
            "advertised.listeners": advertised,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.folder / "data"),
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

    def kept_running(self) -> contextlib.AbstractContextManager[None]:
        """For the time of the block, start the broker again whenever it has ended by itself."""
        return Keeper(
            "the broker of Kafka",
            lambda: self._process is not None and self._process.is_running(),
            self.start,
            lambda: log_tail(self._log),
            tries=None,
        ).at_work()

    def start(self) -> None:
        """Start it, and wait until it answers. Its jars are fetched the first time.

        Raises:
            PlatformError: they can't be fetched, or it does not start.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        written = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        self._properties.write_text(written)
        if not (self.folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            with self._log.open("ab") as log:
                format_ = self._command("kafka.tools.StorageTool", "format", "-t", cluster, "-c")
                finished = subprocess.run(format_, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if finished.returncode:
                raise PlatformError(f"Kafka's storage could not be made.\n{log_tail(self._log)}")
        self._process = SessionProcess.start(
            "kafka",
            self._command("kafka.Kafka"),
            environment=os.environ,
            folder=self.folder,
            log=self._log,
            record=self._record,
        )
        self._wait_until_it_answers(self._process)

    def stop(self) -> None:
        """Stop it in order."""
        if self._process is not None:
            stop_sessions([self._process], _STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self.stop()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [java_program(), *_HEAP, "-cp", f"{kafka_jars()}/*", program, *arguments, str(self._properties)]

    def _wait_until_it_answers(self, process: SessionProcess) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 200})
        until = time.monotonic() + START_SECONDS
        while process.is_running() and time.monotonic() < until:
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
        self.kill()
        raise PlatformError(f"The broker of Kafka did not start.\n{log_tail(self._log)}")

    def _former_ports(self) -> list[int]:
        """The ports of the listeners, as the former start wrote them down."""
        with contextlib.suppress(OSError):
            listeners = re.search(r"^listeners=(.*)$", self._properties.read_text(), re.MULTILINE)
            return [] if listeners is None else [int(port) for port in re.findall(r":(\d+)", listeners[1])]
        return []


def _free_ports(wanted: list[int]) -> list[int]:
    """Three ports of loopback: those that are wanted first, if nobody listens there."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each, port in zip(sockets, [*wanted, 0, 0, 0][:3], strict=True):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
