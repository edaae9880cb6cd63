"""Great Expectations' pages on the validations of a pipeline's facts."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from freshet_airflow.freshness_page.dag_rights import may_see_validations
from freshet_airflow.freshness_page.page_files import file_below
from spark_jobs.settings import home


async def data_docs_file(pipeline: str, path: str, request: Request, user: BaseUser) -> Response:
    """A file of the pipeline's Data Docs; the empty path is their first page.

    Raises:
        HTTPException: 404, there is no such file: nothing was validated yet, or the page was removed. What the user
            may not see counts as nothing.
    """
    # Every name of a pipeline is an identifier. An auth manager may ask a server of its own: in a thread.
    if not pipeline.isidentifier() or not await run_in_threadpool(may_see_validations, pipeline, user):
        raise HTTPException(404)
    return await file_below(home().data_docs(pipeline), path, request)
