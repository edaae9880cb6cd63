"""Great Expectations' pages on the validations of a pipeline's facts."""

from __future__ import annotations

from fastapi import HTTPException, Request, Response

from freshet_airflow.freshness_page.page_files import file_below
from spark_jobs.settings import home


async def data_docs_file(pipeline: str, path: str, request: Request) -> Response:
    """A file of the pipeline's Data Docs; the empty path is their first page.

    Raises:
        HTTPException: 404, there is no such file: nothing was validated yet, or the page was removed.
    """
    if not pipeline.isidentifier():  # as every name of a pipeline is
        raise HTTPException(404, f"There is no pipeline {pipeline}.")
    return await file_below(home().data_docs(pipeline), path, request)
