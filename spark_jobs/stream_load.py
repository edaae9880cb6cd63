"""The main that spark-submit runs for a stream: `stream_load.py PIPELINE [--once]`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spark_jobs.driver.session import starting_context
from spark_jobs.job_main import run_main
from spark_jobs.settings import home

if TYPE_CHECKING:
    from pyspark import SparkContext

    from spark_jobs.driver.stream_job import StreamJob


def main(arguments: list[str] | None = None, description: str | None = __doc__) -> int:
    """Load a pipeline's stream until it is drained; the exit status is 0 only then."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pipeline", help="name of a pipeline, or path of its YAML file")
    parser.add_argument("--once", action="store_true", help="load what has landed and end")
    chosen = parser.parse_args(arguments)
    return run_main(lambda warehouse_url: _run(chosen.pipeline, warehouse_url, once=chosen.once, foreground=False))


def load(pipeline: str, warehouse_url: str, *, once: bool, master: str | None = None) -> None:
    """Run the join job in this process until it is drained, or with `once` until all that landed is loaded.

    Args:
        pipeline: name of a pipeline, or path of its YAML file.
        warehouse_url: libpq URL of the warehouse.
        once: end when everything that has landed is loaded.
        master: Spark master URL; default: what spark-submit says, or all cores of this machine.

    Raises:
        FreshetError: the pipeline can't be loaded, or a newer driver has taken over.
    """
    _run(pipeline, warehouse_url, once=once, foreground=True, master=master)


def _run(pipeline: str, warehouse_url: str, *, once: bool, foreground: bool, master: str | None = None) -> None:
    if foreground or once:
        job = _job(pipeline, warehouse_url)
        job.check()  # before Spark takes its seconds to start; whoever waits for the end reads the error
        with starting_context(job.definition.name, home(), master) as spark:
            _load(job, spark, warehouse_url, once=once, foreground=foreground)
        return
    # Events may be waiting for this driver: Spark starts beside everything else.
    with starting_context(Path(pipeline).stem, home(), master) as spark:
        job = _job(pipeline, warehouse_url)
        from spark_jobs.driver.misfit import fitting_tables

        with fitting_tables(job.definition, home(), warehouse_url, job.check) as outcome:
            if outcome == "fitting":
                _load(job, spark, warehouse_url, once=False, foreground=False)


def _job(pipeline: str, warehouse_url: str) -> StreamJob:
    # Not at the top: to import it all takes seconds, which Spark's start shall not wait for.
    from spark_jobs.definition import load_definition
    from spark_jobs.driver.stream_job import StreamJob
    from spark_jobs.optional_imports import do_without_pandas_and_scipy

    do_without_pandas_and_scipy()
    return StreamJob(load_definition(pipeline), home(), warehouse_url)


def _load(
    job: StreamJob, spark: Callable[[], SparkContext], warehouse_url: str, *, once: bool, foreground: bool
) -> None:
    context = spark()
    if foreground:
        _drain_on_interrupt(job.definition.name, warehouse_url)  # Spark's own handler would cut the batch off
    job.run(context, once=once, resume=foreground)


def _drain_on_interrupt(pipeline: str, warehouse_url: str) -> None:
    """The first Ctrl-C asks the job to load what has landed and end; the second one ends it at once."""
    import psycopg2

    from spark_jobs.warehouse import drivers

    def drain(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("Draining; press Ctrl-C again to end at once. Nothing is lost either way.", file=sys.stderr)
        with closing(psycopg2.connect(warehouse_url)) as connection:
            drivers.request_state(connection, pipeline, "draining")

    signal.signal(signal.SIGINT, drain)


if __name__ == "__main__":
    sys.exit(main())
