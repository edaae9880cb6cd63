"""Runs a suite of expectations over the facts: PostgreSQL computes, nothing but counts and examples comes out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from psycopg2 import extensions
from sqlalchemy.pool import StaticPool

from spark_jobs.validation.gx.data_docs import SITE, context_with_pages, forget_old_results, page_of
from spark_jobs.validation.gx.few_unexpected_rows import MOST_EXAMPLES
from spark_jobs.validation.gx.suite import Stated

_log = logging.getLogger(__name__)

# The server itself is named by nobody: the session is handed over as it is.
_ADDRESS = "postgresql+psycopg2://freshet@warehouse/facts"


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
