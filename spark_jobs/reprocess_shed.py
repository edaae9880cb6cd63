"""The main that spark-submit runs to reprocess: `reprocess_shed.py PIPELINE [--place shed] [--limit 100000] ...`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.definition.fates import WAITING_PLACES
from spark_jobs.driver.session import join_context
from spark_jobs.job_main import run_main
from spark_jobs.launch.low_priority import yield_processor
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob, RunEnd
from spark_jobs.reprocessing.request import BATCH_ALGORITHMS, ReprocessingRequest
from spark_jobs.reprocessing.requeue import requeue
from spark_jobs.settings import home
from spark_jobs.timestamps import parse_timestamp
from spark_jobs.warehouse.connection import connect

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Load shed tuples and retry unmatched ones; the exit status is 0 if that was done, or yielded to the stream."""
    chosen = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)

    def run(warehouse_url: str) -> None:
        definition = load_definition(chosen.pipeline)
        request = ReprocessingRequest(
            limit=chosen.limit or definition.reprocessing.limit,
            places=tuple(place for place in WAITING_PLACES if place in (chosen.place or WAITING_PLACES)),
            arrived_from=chosen.arrived_from,
            arrived_until=chosen.arrived_until,
            reason=chosen.reason,
            text=chosen.text,
            algorithm=chosen.algorithm,
            all_unmatched=chosen.all_unmatched,
            yields=not chosen.no_yield,
            airflow_run=chosen.airflow_run,
            by=chosen.by,
        )
        if chosen.requeue is not None:
            _requeue(definition, warehouse_url, chosen)
        reprocess(definition, warehouse_url, request)

    return run_main(run)


def reprocess(
    definition: PipelineDefinition, warehouse_url: str, request: ReprocessingRequest, master: str | None = None
) -> RunEnd:
    """Run a reprocessing job in this process, which gives way to all others from then on.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse.
        request: which held tuples to take, and how.
        master: Spark master URL; default: what spark-submit says, or all cores of this machine.

    Raises:
        FreshetError: the run failed, whole or in part.
    """
    yield_processor()
    contexts: list[SparkContext] = []

    def make_context() -> SparkContext:
        contexts.append(join_context(definition.name, home(), master))
        return contexts[-1]

    job = ReprocessingJob(definition, warehouse_url, request, make_context)
    # Not in this thread: a signal that interrupted a call to Java would have the next call read its answer.
    with ThreadPoolExecutor(1, "reprocessing") as thread:
        try:
            return thread.submit(job.run).result()
        except (KeyboardInterrupt, SystemExit):
            job.abandon()
            raise
        finally:
            for context in contexts:
                context.stop()


def _requeue(definition: PipelineDefinition, warehouse_url: str, chosen: argparse.Namespace) -> None:
    with closing(connect(warehouse_url)) as connection:
        done = requeue(
            connection,
            definition.name,
            chosen.requeue,
            since=chosen.arrived_from,
            until=chosen.arrived_until,
            text=chosen.text,
            airflow_run=chosen.airflow_run,
            by=chosen.by,
        )
    left = done.hopeless + done.unjoined
    _log.info("%s: %d rejected tuples were requeued, %d can't be", definition.name, done.tuples, left)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", help="name of a pipeline, or path of its YAML file")
    parser.add_argument("--place", action="append", choices=WAITING_PLACES, help="from where; may be given twice")
    parser.add_argument("--arrived-from", type=parse_timestamp, help="only tuples that arrived then or later, ISO 8601")
    parser.add_argument("--arrived-until", type=parse_timestamp, help="only tuples that arrived before, ISO 8601")
    parser.add_argument("--reason", default="", help="only tuples whose reason contains this")
    parser.add_argument("--text", default="", help="only tuples whose record contains this")
    parser.add_argument("--requeue", metavar="REASON", help="first give tuples rejected for this reason a new try")
    parser.add_argument("--limit", type=_count, help="tuples to take at most; default: the pipeline's")
    parser.add_argument("--algorithm", choices=BATCH_ALGORITHMS, default="auto", help="for every lookup that can")
    parser.add_argument("--all-unmatched", action="store_true", help="retry unmatched tuples that are not due yet, too")
    parser.add_argument("--no-yield", action="store_true", help="go on even while the stream is overloaded")
    parser.add_argument("--airflow-run", help="id of the DAG run that this is a part of")
    parser.add_argument("--by", help="who asks for it, as is noted")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("a run takes one tuple or more")
    return number


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End like an interrupted program does, so that the run is closed."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
