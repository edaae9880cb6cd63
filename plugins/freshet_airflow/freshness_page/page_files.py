"""The files that the page answers with, its own and Data Docs, and what a browser may do with them."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.staticfiles import StaticFiles

from freshet_airflow.freshness_page.dag_rights import may_see_validations
from spark_jobs.settings import home

FOLDER = Path(__file__).with_name("static")


async def page_file(path: str, request: Request) -> Response:
    """A file of the page; the empty path is the page itself. Raises like `file_below`."""
    return await file_below(FOLDER, path, request)


async def file_below(folder: Path, path: str, request: Request) -> Response:
    """A file in a folder or below it, or that the browser's copy of it is still right.

    Args:
        folder: it need not exist.
        path: of the file, relative to the folder; of a folder its index.html is meant.
        request: tells what the browser has.

    Raises:
        HTTPException: 404, there is no such file; whatever the path leads to outside counts as nothing.
    """
    files = StaticFiles(directory=folder, html=True, check_dir=False)
    try:
        return await files.get_response(os.path.normpath(path), request.scope)
    except ValueError:  # a zero byte
        raise HTTPException(404) from None


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


# The page's own scripts and styles, and nothing else; framed by Airflow's own pages, and by no others.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
# Pages of another program, with values of facts in them: they run no script, so they can't use the reader's session.
DATA_DOCS_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def protected(response: Response, policy: str) -> Response:
    """The same answer, with the policy and without room for guesses about its type.

    Args:
        response: a file.
        policy: value of Content-Security-Policy.
    """
    response.headers["Content-Security-Policy"] = policy
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-cache"  # ask whether it has changed, each time
    return response
