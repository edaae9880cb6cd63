"""Serves the pipelines' figures to Prometheus, from the warehouse alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import psycopg2
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg2 import extensions

from spark_jobs.errors import PlatformError, WarehouseUnavailableError
from spark_jobs.ledger.status.figures import MONITORED, STATES, Figure
from spark_jobs.ledger.status.lag import SourceLook
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, StatusReader
from spark_jobs.warehouse.connection import connect

_log = logging.getLogger(__name__)
_PATIENCE = timedelta(seconds=2)  # Prometheus waits for ten
_STATEMENT_TIMEOUT = "8s"


class PipelineCollector(Collector):
    """Reads the status of all pipelines for each scrape; while the warehouse is away, it tells that and no more.

    A metric is called `freshet_` and the figure's key, with the label `pipeline`; times are in seconds.

    Args:
        url: of the warehouse.
        look: sees what has landed where no driver looks.
    """

    def __init__(self, url: str, look: SourceLook | None = None) -> None:
        self._url = url
        self._look = look
        self._warehouse: tuple[extensions.connection, StatusReader] | None = None
        self._turn = threading.Lock()  # each scrape is a thread of its own

    def describe(self) -> list[Metric]:
        """Nothing: what there is, only the warehouse can tell."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        with self._turn:
            statuses = self._read()
        about = "Whether the warehouse answers."
        yield GaugeMetricFamily("freshet_warehouse_up", about, value=0 if statuses is None else 1)
        if statuses is not None:
            yield _states(statuses)
            for figure in MONITORED:
                yield _metric(figure, statuses)

    def close(self) -> None:
        """Leave the warehouse, and forget what it held: the next one may be restored from an older backup."""
        if self._warehouse is not None:
            self._warehouse[0].close()
            self._warehouse = None

    def _read(self) -> list[PipelineStatus] | None:
        """The status of all pipelines; None while the warehouse does not answer."""
        try:
            try:
                return self._read_once()
            except psycopg2.Error:
                if self._warehouse is None or not self._warehouse[0].closed:
                    raise
                self.close()  # the session had ended, as when the server was restarted: a new one may be had
                return self._read_once()
        except (psycopg2.Error, WarehouseUnavailableError) as error:
            _log.warning("The warehouse does not answer: %s", str(error).strip())
            self.close()
            return None

    def _read_once(self) -> list[PipelineStatus]:
        if self._warehouse is None:
            connection = connect(self._url, application_name="freshet metrics", patience=_PATIENCE)
            self._warehouse = connection, StatusReader(look=self._look)
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, false)", [_STATEMENT_TIMEOUT])
        connection, reader = self._warehouse
        return reader.read(connection)


def metrics_table() -> str:
    """The metrics that tell a figure of each pipeline, as a Markdown table."""
    lines = [f"| `{_metric(figure, ()).name}` | {figure.kind} | {figure.meaning} |" for figure in MONITORED]
    return "\n".join(["| metric | kind | meaning |", "|---|---|---|", *lines])


def _metric(figure: Figure, statuses: Sequence[PipelineStatus]) -> Metric:
    is_time = figure.unit == "ms"
    name = f"{figure.key.removesuffix('_ms')}_seconds" if is_time else figure.key
    family = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    metric = family(f"freshet_{name}", figure.meaning, labels=["pipeline"])
    for status in statuses:
        if (value := figure.read(status)) is not None:
            metric.add_metric([status.name], value / 1000.0 if is_time else value)
    return metric


def _states(statuses: Sequence[PipelineStatus]) -> Metric:
    metric = GaugeMetricFamily("freshet_state", "1 for the state of the pipeline.", labels=["pipeline", "state"])
    for status in statuses:
        for state in STATES:
            metric.add_metric([status.name, state], status.state == state)
    return metric


@contextmanager
def serving(collector: PipelineCollector, host: str, port: int) -> Iterator[str]:
    """Answer Prometheus for the time of the block, in threads; yields the address.

    Args:
        collector: what is told.
        host: address to listen on.
        port: 0 chooses a free one.

    Raises:
        PlatformError: something else listens there, or there is no such address.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise PlatformError(
            f"Nothing can listen on {host}:{port}: {error}. Choose another --host or --port."
        ) from error
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        collector.close()
