"""Data Docs of a pipeline's validations, kept for the newest ones."""

from __future__ import annotations

from pathlib import Path

import great_expectations as gx
from great_expectations.data_context import AbstractDataContext
from great_expectations.data_context.types.base import DataContextConfig
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier

SITE = "facts"
KEPT = 50
_RESULTS = "results"
_VIEWS = "spark_jobs.validation.gx.plain_pages"


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
