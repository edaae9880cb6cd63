"""Runs a suite of expectations over the facts, and keeps Data Docs of the newest runs.

PostgreSQL computes; nothing but counts and examples comes out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.data_context import AbstractDataContext
from great_expectations.data_context.types.base import DataContextConfig
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from psycopg2 import extensions
from sqlalchemy.pool import StaticPool

from spark_jobs.validation.gx.suite import MOST_EXAMPLES, Stated

_log = logging.getLogger(__name__)

# The server itself is not named: the session is handed over as it is.
_ADDRESS = "postgresql+psycopg2://freshet@warehouse/facts"

SITE = "facts"
KEPT = 50
_RESULTS = "results"
_VIEWS = "spark_jobs.validation.gx.plain_pages"


def run_suite(
    connection: extensions.connection,
    pipeline: str,
    facts: str,
    event_id: Sequence[str],
    stated: Sequence[Stated],
    *,
    run_name: str,
    folder: Path,
) -> tuple[ExpectationSuiteValidationResult, str]:
    """Validate facts, and write a page on it.

    Args:
        connection: in autocommit mode; its session does all queries, one after the other.
        pipeline: name of the suite.
        facts: query for the facts.
        event_id: columns by which examples are named.
        stated: the expectations.
        run_name: tells this run from others.
        folder: of the pipeline's Data Docs.

    Returns:
        the results, and the page's path below the folder.
    """
    context = context_with_pages(folder)
    source = context.data_sources.add_postgres(
        "warehouse",
        connection_string=_ADDRESS,
        create_temp_table=False,
        kwargs={
            "creator": lambda: connection,
            "poolclass": StaticPool,
            "pool_reset_on_return": None,
            "isolation_level": "AUTOCOMMIT",
        },
    )
    batch = source.add_query_asset("facts", query=facts).add_batch_definition_whole_table("validated")
    suite = context.suites.add(gx.ExpectationSuite(name=pipeline))
    for number, each in enumerate(stated):
        each.expectation.meta = {"number": number}
        suite.add_expectation(each.expectation)
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=pipeline, data=batch, suite=suite))
    forget_old_results(folder)
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(
            name=pipeline,
            validation_definitions=[definition],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="pages", site_names=[SITE])],
            result_format={
                "result_format": "SUMMARY",
                "partial_unexpected_count": MOST_EXAMPLES,
                "unexpected_index_column_names": list(event_id),
            },
        )
    )
    run = checkpoint.run(run_id=gx.RunIdentifier(run_name=run_name, run_time=datetime.now(UTC)))
    ((identifier, result),) = run.run_results.items()
    assert isinstance(identifier, ValidationResultIdentifier)
    return result, page_of(identifier)


def context_with_pages(folder: Path) -> AbstractDataContext:
    """A context of Great Expectations that remembers nothing but results, and renders these as pages.

    Args:
        folder: of the pages; the results lie in a folder below it, from which the index is made.
    """
    config = DataContextConfig(
        stores={
            "expectations_store": {"class_name": "ExpectationsStore"},
            "validation_results_store": {
                "class_name": "ValidationResultsStore",
                "store_backend": _files(folder / _RESULTS),
            },
            "checkpoint_store": {"class_name": "CheckpointStore"},
            "validation_definition_store": {"class_name": "ValidationDefinitionStore"},
        },
        expectations_store_name="expectations_store",
        validation_results_store_name="validation_results_store",
        checkpoint_store_name="checkpoint_store",
        data_docs_sites={
            SITE: {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": _files(folder),
                "site_index_builder": {
                    "class_name": "DefaultSiteIndexBuilder",
                    "renderer": {"module_name": _VIEWS, "class_name": "ValidationList"},
                    "view": {"module_name": _VIEWS, "class_name": "ListPage"},
                },
                "site_section_builders": {
                    "expectations": "None",
                    "profiling": "None",
                    "validations": {"view": {"module_name": _VIEWS, "class_name": "PlainPage"}},
                },
            }
        },
        analytics_enabled=False,
        progress_bars={"globally": False},
    )
    return gx.get_context(project_config=config, mode="ephemeral")


def forget_old_results(folder: Path) -> None:
    """Leave room for one more result among those that are kept; the pages of the others go when the index is made."""
    results = sorted((folder / _RESULTS).rglob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in results[: max(0, len(results) - KEPT + 1)]:
        path.unlink()


def page_of(identifier: ValidationResultIdentifier) -> str:
    """Path of a result's page, below the folder of the pages."""
    return "/".join(["validations", *identifier.to_tuple()]) + ".html"


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}
