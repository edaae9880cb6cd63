"""Whoever can ask Spark for a pickled task, or read its files, finds no password in it."""

from __future__ import annotations

import json
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from sqlalchemy import make_url

from spark_jobs import secret_text
from spark_jobs.definition import Source, load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale

PASSWORD = "S3CRET-of-nobody-else"


@pytest.fixture
def pickled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All that is pickled for Spark from now on: tasks, and what they are given."""
    made: list[bytes] = []
    make = CloudPickleSerializer.dumps

    def noting(self: CloudPickleSerializer, value: Any) -> bytes:
        made.append(make(self, value))
        return made[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", noting)
    return made


def test_a_batch_carries_no_password_of_the_warehouse(shop: Shop, pickled: list[bytes]) -> None:
    land(shop.folder, "first", (sale(n, customer=n % 100 + 1) for n in range(500)))
    url = make_url(shop.url).set(password=PASSWORD).render_as_string(hide_password=False)
    assert PASSWORD in url  # the server, which knows us by our user, does not ask for it
    StreamJob(load_definition(shop.path), shop.home, url).run(shop.spark, once=True)
    assert query(shop.url, "SELECT count(*) FROM shop.fact_sales") == [(500,)]
    assert sum(b"BatchContext" in task for task in pickled) > 0
    assert [task for task in pickled if PASSWORD.encode() in task] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(secret_text, "_folders", [tmp_path])
    return tmp_path


def elsewhere(task: bytes) -> str:
    """What another process finds in a pickled task."""
    reading = "import pickle, sys; print(vars(pickle.load(sys.stdin.buffer)))"
    done = subprocess.run([sys.executable, "-c", reading], input=task, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_client_of_kafka_carries_no_password(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "kafka", "login": "me", "password": PASSWORD, "extra": {"ssl.key.password": PASSWORD}}
    monkeypatch.setenv("AIRFLOW_CONN_CLICKS", json.dumps(connection))
    keys = {"servers": "localhost:1", "topic": "clicks", "connection": "clicks"}
    given = {"kafka": keys, "format": "json", "schema": "id bigint", "event_time": "_timestamp"}
    source = Source.model_validate(given)
    assert source.kafka is not None
    task = pickle.dumps(KafkaClient.of(source.kafka, "clicks"))
    assert PASSWORD.encode() not in task
    monkeypatch.delenv("AIRFLOW_CONN_CLICKS")
    assert elsewhere(task).count(PASSWORD) == 2
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


def test_a_decoder_with_a_registry_carries_no_password(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "http", "login": "me", "password": PASSWORD}
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps(connection))
    source = Source.model_validate(
        {
            "kafka": {"servers": "localhost:1", "topic": "clicks"},
            "format": "avro",
            "avro": {"registry": "http://localhost:1", "connection": "registry"},
            "schema": "id bigint",
            "event_time": "_timestamp",
        }
    )
    assert PASSWORD.encode() not in pickle.dumps(RecordDecoder.of(source))


def test_a_worker_that_lacks_the_file_says_what_a_cluster_needs(folder: Path) -> None:
    task = pickle.dumps(secret_text.SecretText(PASSWORD))
    for each in folder.iterdir():
        each.unlink()
    with pytest.raises(Exception, match="FRESHET_HOME must be one shared folder"):
        pickle.loads(task)
