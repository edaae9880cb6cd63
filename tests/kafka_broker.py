"""One broker of Kafka for all tests of a session, and topics in it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from spark_jobs.local.embedded_kafka.broker import KafkaBroker

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for the whole session; a test that ends it starts it again."""
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder, folder / "broker.log", secured(folder), "SASL_SSL").use() as broker:
        yield broker


USER, PASSWORD = "loader", "s3cret%word"


def secured(folder: Path) -> dict[str, str]:
    """Settings of a broker that lets a user in by TLS and password; its certificate is written into the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begin = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin, begin + timedelta(9))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    (folder / "broker.pem").write_bytes(certificate)
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "keystore.pem").write_bytes(own + certificate)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "log.cleaner.backoff.ms": "200",
    }


@pytest.fixture
def connected(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Makes an Airflow connection to the broker's secured listener, with a password; gives the definition's keys."""

    def connect(password: str) -> dict[str, str]:
        extra = {"ssl.ca.location": str(broker.folder / "broker.pem")}
        connection = {"conn_type": "kafka", "login": USER, "password": password, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_KAFKA", json.dumps(connection))
        return {"servers": broker.further_servers, "connection": "shop_kafka"}

    return connect


class Topic:
    """A topic of a test's own."""

    def __init__(self, broker: KafkaBroker, name: str, partitions: int = 1, **config: str) -> None:
        self.servers, self.name = broker.servers, name
        self.admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
        self.make(partitions, **config)

    def make(self, partitions: int = 1, **config: str) -> None:
        written = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(self.name, partitions, 1, config=written)
        self.admin.create_topics([topic])[self.name].result()
        self.wait_until(lambda: self.answering() == partitions)

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result()
        self.wait_until(lambda: self.name not in self.admin.list_topics(timeout=10).topics)

    def remove_before(self, offset: int, partition: int = 0) -> None:
        """Do what retention does."""
        where = TopicPartition(self.name, partition, offset)
        self.admin.delete_records([where])[where].result()

    def add_partitions(self, total: int) -> None:
        self.admin.create_partitions([NewPartitions(self.name, total)])[self.name].result()
        self.wait_until(lambda: self.answering() == total)

    def answering(self) -> int:
        """How many partitions can be read: one that was just made is listed before its leader knows of it."""
        known = self.admin.list_topics(timeout=10).topics.get(self.name)
        if known is None or known.error is not None:
            return 0
        asked = {TopicPartition(self.name, number): OffsetSpec.latest() for number in known.partitions}
        return sum(answer.exception() is None for answer in self.admin.list_offsets(asked).values())

    def send(self, values: Iterable[bytes | None], partition: int = 0, timestamp: datetime | None = None) -> None:
        """Write records, and wait until the broker has them."""
        written = {} if timestamp is None else {"timestamp": int(timestamp.timestamp() * 1000)}
        limits = {"message.max.bytes": 20 << 20, "queue.buffering.max.messages": 0}
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, **limits})
        for value in values:
            producer.produce(self.name, value, partition=partition, on_delivery=refuse_loss, **written)
        assert producer.flush(30) == 0

    @contextmanager
    def transaction(self, values: Iterable[bytes], *, commit: bool = True) -> Iterator[None]:
        """Write records in a transaction that is open during the block, and committed or aborted after it."""
        name = f"transaction-{next(_numbers)}"
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": name, "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value)
        assert producer.flush(30) == 0
        yield
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    @staticmethod
    def wait_until(is_so: Any) -> None:
        until = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.05)


def refuse_loss(error: KafkaError | None, _: Message) -> None:
    """A record that the broker does not take is the test's fault."""
    if error is not None:
        raise KafkaException(error)


@pytest.fixture
def topic(broker: KafkaBroker) -> Topic:
    """A topic with one partition."""
    return Topic(broker, f"topic-{next(_numbers)}")
