"""A pipeline's definition and the warehouse, opened and closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.settings import home

if TYPE_CHECKING:
    from psycopg2 import extensions

    from spark_jobs.definition import PipelineDefinition
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus


@contextmanager
def opened(pipeline: str) -> Iterator[tuple[PipelineDefinition, str]]:
    """A pipeline's definition, and the URL of the warehouse, which is at hand for the time of the block.

    A wrong name is reported first, before the warehouse is looked for and what is heavy is imported.

    Args:
        pipeline: its name, or the path of its YAML file.

    Raises:
        PipelineDefinitionError: there is none, or it is wrong.
        WarehouseUnavailableError: there is no warehouse, or it does not answer.
    """
    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)
    from spark_jobs.local.warehouse_server import warehouse

    with warehouse(home(), create=False) as url:
        yield definition, url


@contextmanager
def connected(url: str | None = None) -> Iterator[extensions.connection]:
    """A connection to the warehouse, which is closed after the block; as impatient as who waits for the command.

    Args:
        url: of the warehouse; None: the installation's, which is at hand for the time of the block.
    """
    from spark_jobs.local.warehouse_server import PATIENCE, warehouse
    from spark_jobs.warehouse.connection import connect

    if url is None:
        with warehouse(home(), create=False) as found, connected(found) as connection:
            yield connection
        return
    connection = connect(url, patience=PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def statuses(url: str) -> list[PipelineStatus]:
    """The status of all pipelines, after one look at their sources."""
    from spark_jobs.ledger.status.pipeline_status import read_status
    from spark_jobs.source.files.landing_look import ONE_LOOK, LandingLook

    with connected(url) as connection:
        return read_status(connection, look=LandingLook(home(), ONE_LOOK))
