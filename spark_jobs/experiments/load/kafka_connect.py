"""Kafka Connect with Debezium's JDBC sink: a standalone worker upserts a topic's records; it looks nothing up.

The key of R stands in the fact table for what the others fetch of R.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg2
import pyspark

from spark_jobs.driver.java import java_program
from spark_jobs.errors import FreshetError
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.launch.session_process import log_tail
from spark_jobs.local.embedded_kafka import jars

_CONNECTOR_VERSION = "3.4.0.Final"
# The worker has these already, and a connector that brings its own does not start.
_OF_WORKER = ("jackson-core", "jackson-databind", "jackson-annotations", "slf4j-api")
_LOGGING = ("slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
_HEAP = "-Xmx2g"
_RECORDS_AT_ONCE = 10_000
_LOOK_SECONDS = 0.2
_SILENCE_SECONDS = 120.0
# The worker goes on without a task that has failed.
_TASK_FAILED = "Task is being killed and will not recover"
_LONGEST_MESSAGE = 2_000
_COMMITS = """
    SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at, count(*) FROM bench.fact
    GROUP BY at ORDER BY at
"""
_DECIMAL = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
_FIELDS = [
    {"field": "id", "type": "int64"},
    {"field": "key", "type": "int64"},
    {"field": "quantity", "type": "int32"},
    {"field": "amount", "type": "bytes", **_DECIMAL},
    {"field": "at", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
]
_LOG = {
    "appender.console.type": "Console",
    "appender.console.name": "console",
    "appender.console.layout.type": "PatternLayout",
    "appender.console.layout.pattern": "%d %p %c: %m%n",
    "rootLogger.level": "warn",
    "rootLogger.appenderRef.console.ref": "console",
}


def load_by_connect(
    case: LoadCase, topic: str, servers: str, folder: Path, jdbc_url: str, warehouse_url: str
) -> list[Batch]:
    """Load all events of a topic; what was committed at once counts as a batch.

    Args:
        case: the benchmark's size; of a regime in which nothing but `relation_sk` is fetched, and R stays.
        topic: with the events as JSON.
        servers: the broker.
        folder: scratch folder of this run.
        jdbc_url: the warehouse, by JDBC.
        warehouse_url: libpq URL of it.

    Raises:
        FreshetError: the case is another one, or the worker has failed; the message has the end of its log.
        PlatformError: its jars can't be fetched.
    """
    if case.is_wide or case.is_changing:
        raise FreshetError(f"kafka-connect looks nothing up: it can't be run in the regime {case.regime}")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "debezium").symlink_to(_connector())
    log = folder / "connect.log"
    files = {
        "worker.properties": _worker(servers, folder, plugins),
        "sink.properties": _sink(case, topic, jdbc_url),
        "log.properties": _LOG,
    }
    for name, settings in files.items():
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [java_program(), _HEAP, f"-Dlog4j2.configurationFile={folder / 'log.properties'}", "-cp", _class_path()]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties", "sink.properties"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        return _watch(worker, case.all_events, warehouse_url, log)
    finally:
        worker.kill()
        worker.wait()


def _watch(worker: subprocess.Popen[bytes], events: int, warehouse_url: str, log: Path) -> list[Batch]:
    """Wait until all events are in the fact table.

    The server knows when each transaction was committed. Until the table stops growing only its size is asked for: to
    count what it holds takes the time that the worker needs.
    """
    size, began, heard_at = 0, time.time(), time.monotonic()
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        while True:
            time.sleep(_LOOK_SECONDS)
            looked, former = time.time(), size
            cursor.execute("SELECT pg_relation_size('bench.fact')")
            [(size,)] = cursor.fetchall()
            if size > former:
                heard_at = time.monotonic()
            elif size:
                cursor.execute(_COMMITS)
                commits = cursor.fetchall()
                if sum(facts for _, facts in commits) >= events:
                    return [
                        Batch(former_at, at, facts)
                        for (former_at, _), (at, facts) in itertools.pairwise([(began, 0), *commits])
                    ]
            else:
                began = looked
            _require_progress(worker, log, heard_at)


def _require_progress(worker: subprocess.Popen[bytes], log: Path, heard_at: float) -> None:
    text = log.read_text(errors="replace")
    _, failed, message = text.partition(_TASK_FAILED)
    if failed:
        raise FreshetError(f"A task of Kafka Connect has failed: {failed}{message[:_LONGEST_MESSAGE]}")
    if worker.poll() is not None or time.monotonic() - heard_at > _SILENCE_SECONDS:
        what = "stores nothing" if worker.poll() is None else "has ended"
        raise FreshetError(f"Kafka Connect {what}, and not all events are stored.\n{log_tail(log)}")


def _worker(servers: str, folder: Path, plugins: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schema.content": json.dumps({"type": "struct", "fields": _FIELDS}),
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "listeners": "http://127.0.0.1:0",
        "plugin.discovery": "service_load",
        "plugin.path": str(plugins),
        "consumer.max.poll.records": str(_RECORDS_AT_ONCE),
    }


def _sink(case: LoadCase, topic: str, jdbc_url: str) -> dict[str, str]:
    url = urlsplit(jdbc_url.removeprefix("jdbc:"))
    [user], [password] = (parse_qs(url.query)[name] for name in ("user", "password"))
    return {
        "name": "sink",
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": str(case.cores),
        "topics": topic,
        "connection.url": f"jdbc:{url._replace(query='reWriteBatchedInserts=true').geturl()}",
        "connection.username": user,
        "connection.password": password,
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "event_id",
        "schema.evolution": "none",
        "collection.name.format": "bench.fact",
        "batch.size": str(_RECORDS_AT_ONCE),
        "transforms": "names",
        "transforms.names.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.names.renames": "id:event_id,key:relation_sk,at:happened_at",
    }


def _class_path() -> str:
    """That of the worker, which logs by what Spark has for it."""
    worker = jars.fetched_jars(f"kafka-connect-{jars.VERSION}", "org.apache.kafka", "connect-runtime", jars.VERSION)
    of_spark = Path(pyspark.__file__).parent / "jars"
    logging = [jar for name in _LOGGING for jar in of_spark.glob(f"{name}-*.jar")]
    return ":".join([*map(str, logging), f"{worker}/*"])


def _connector() -> Path:
    """The folder of the connector's jars."""
    name = f"debezium-connector-jdbc-{_CONNECTOR_VERSION}"

    def leave_to_worker(folder: Path) -> None:
        for jar in [jar for pattern in _OF_WORKER for jar in folder.glob(f"{pattern}-*.jar")]:
            jar.unlink()

    module = ("io.debezium", "debezium-connector-jdbc", _CONNECTOR_VERSION)
    return jars.fetched_jars(name, *module, finish=leave_to_worker)
