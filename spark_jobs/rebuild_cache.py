"""The main that spark-submit runs to rebuild caches: `rebuild_cache.py PIPELINE [--lookup RELATION] [--no-hot] ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.driver.checks import check_tables
from spark_jobs.driver.session import join_context
from spark_jobs.job_main import run_main
from spark_jobs.launch.low_priority import yield_processor
from spark_jobs.lookup.hot_keys.rebuild import Rebuild, RebuildRequest
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.settings import home
from spark_jobs.shown_text import shown_line

if TYPE_CHECKING:
    from psycopg2 import extensions
    from pyspark import SparkContext


def main(arguments: list[str] | None = None) -> int:
    """Rebuild a pipeline's caches and say what became of each; the exit status is 0 only if all were rebuilt."""
    chosen = _parser().parse_args(arguments)

    def run(warehouse_url: str) -> None:
        yield_processor()
        definition = load_definition(chosen.pipeline)
        request = RebuildRequest(tuple(chosen.lookup), hot_tuples=chosen.hot, snapshots=chosen.snapshot)
        for line in rebuild(definition, warehouse_url, request):
            print(shown_line(line), flush=True)

    return run_main(run)


def rebuild(
    definition: PipelineDefinition, warehouse_url: str, request: RebuildRequest, master: str | None = None
) -> Iterator[str]:
    """Rebuild a pipeline's caches in this process; one line for each that was rebuilt or could not be.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse.
        request: which caches.
        master: Spark master URL; default: what spark-submit says, or all cores of this machine.

    Raises:
        FreshetError: a cache could not be rebuilt; the former versions stay in use.
    """
    contexts: list[SparkContext] = []

    def make_context() -> SparkContext:
        if not contexts:
            contexts.append(join_context(definition.name, home(), master))
        return contexts[0]

    def describe(connection: extensions.connection) -> tuple[RelationSpec, ...]:
        return check_tables(connection, definition).relations

    try:
        yield from Rebuild(definition, home(), warehouse_url, describe, make_context).run(request)
    finally:
        for context in contexts:
            context.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", help="name of a pipeline, or path of its YAML file")
    parser.add_argument(
        "--lookup", metavar="RELATION", action="append", default=[], help="only lookups of it; may be given again"
    )
    parser.add_argument("--hot", action=argparse.BooleanOptionalAction, default=True, help="hot tuples")
    parser.add_argument("--snapshot", action=argparse.BooleanOptionalAction, default=True, help="snapshots of R")
    return parser


if __name__ == "__main__":
    sys.exit(main())
