"""The main that spark-submit runs for a driver: `stream_load.py PIPELINE [--once]`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType

from spark_jobs.driver.session import starting_context
from spark_jobs.job_main import run_main
from spark_jobs.settings import home


def main() -> int:
    """Load a pipeline's stream, and others that share its driver, until all are drained; exit status 0 only then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", help="name of a pipeline, or path of its YAML file")
    parser.add_argument("--once", action="store_true", help="load what has landed and end")
    chosen = parser.parse_args()
    if chosen.once:
        return run_main(lambda warehouse_url: load([chosen.pipeline], warehouse_url, once=True))
    return run_main(lambda warehouse_url: _serve(chosen.pipeline, warehouse_url))


def load(pipelines: Sequence[str], warehouse_url: str, *, once: bool, master: str | None = None) -> None:
    """Run the join job in this process until it is drained, or with `once` until all that landed is loaded.

    Args:
        pipelines: names of pipelines, paths of their YAML files, or names of the drivers that share them.
        warehouse_url: libpq URL of the warehouse.
        once: end when everything that has landed is loaded.
        master: Spark master URL; default: what spark-submit says, or all cores of this machine.

    Raises:
        FreshetError: a pipeline can't be loaded, or a newer driver has taken over.
    """
    # Here, as in `_serve`: to import it all takes seconds, which Spark's start shall not wait for.
    from spark_jobs.definition import load_named
    from spark_jobs.driver.driver_process import DriverProcess
    from spark_jobs.driver.stream_job import StreamJob
    from spark_jobs.optional_imports import do_without_pandas_and_scipy
    from spark_jobs.warehouse.connection_pool import ConnectionPool

    do_without_pandas_and_scipy()
    pool = ConnectionPool(warehouse_url, "freshet driver")
    jobs = [StreamJob(definition, home(), warehouse_url, pool) for definition in load_named(pipelines).values()]
    names = [job.definition.name for job in jobs]
    for job in jobs:
        job.check()  # before Spark takes its seconds to start; whoever waits for the end reads the error
    with starting_context(" ".join(names), home(), master) as spark:
        process = DriverProcess(home(), warehouse_url, spark)
        spark()
        _drain_on_interrupt(names, warehouse_url)  # Spark's own handler would cut the batch off
        process.load(jobs, once=once)


def _serve(pipeline: str, warehouse_url: str) -> None:
    # Events may be waiting for this driver: Spark starts beside everything else.
    with starting_context(Path(pipeline).stem, home()) as spark:
        from spark_jobs.driver.driver_process import DriverProcess
        from spark_jobs.optional_imports import do_without_pandas_and_scipy

        do_without_pandas_and_scipy()
        DriverProcess(home(), warehouse_url, spark).serve(pipeline)


def _drain_on_interrupt(pipelines: Iterable[str], warehouse_url: str) -> None:
    """The first Ctrl-C asks the job to load what has landed and end; the second one ends it at once."""
    import psycopg2

    from spark_jobs.control import driver_requests

    def drain(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("Draining; press Ctrl-C again to end at once. Nothing is lost either way.", file=sys.stderr)
        with closing(psycopg2.connect(warehouse_url)) as connection:
            for pipeline in pipelines:
                driver_requests.request_state(connection, pipeline, "draining")

    signal.signal(signal.SIGINT, drain)


if __name__ == "__main__":
    sys.exit(main())
