"""The main that spark-submit runs for a stream: `stream_load.py PIPELINE [--once]`."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import closing
from types import FrameType

import psycopg2

from spark_jobs.definition import load_definition
from spark_jobs.driver.misfit import fitting_tables
from spark_jobs.driver.session import join_context
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.job_main import run_main
from spark_jobs.settings import home
from spark_jobs.warehouse import drivers


def main(arguments: list[str] | None = None) -> int:
    """Load a pipeline's stream until it is drained; the exit status is 0 only then."""
    parser = argparse.ArgumentParser(description=__doc__)
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
    definition = load_definition(pipeline)
    job = StreamJob(definition, home(), warehouse_url)
    if foreground or once:
        job.check()  # before Spark takes its seconds to start: the error is told at once
        _load(definition.name, job, warehouse_url, once=once, foreground=foreground, master=master)
        return
    with fitting_tables(definition, home(), warehouse_url, job.check) as outcome:
        if outcome == "fitting":
            _load(definition.name, job, warehouse_url, once=False, foreground=False, master=master)


def _load(
    pipeline: str, job: StreamJob, warehouse_url: str, *, once: bool, foreground: bool, master: str | None
) -> None:
    spark = join_context(pipeline, home(), master)
    if foreground:
        _drain_on_interrupt(pipeline, warehouse_url)  # Spark's own handler would cut the batch off
    try:
        job.run(spark, once=once, resume=foreground)
    finally:
        spark.stop()


def _drain_on_interrupt(pipeline: str, warehouse_url: str) -> None:
    """The first Ctrl-C asks the job to load what has landed and end; the second one ends it at once."""

    def drain(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("Draining; press Ctrl-C again to end at once. Nothing is lost either way.", file=sys.stderr)
        with closing(psycopg2.connect(warehouse_url)) as connection:
            drivers.request_state(connection, pipeline, "draining")

    signal.signal(signal.SIGINT, drain)


if __name__ == "__main__":
    sys.exit(main())
