"""The page's web application: its files, the figures, the rights of the user, and the Data Docs.

Airflow does not guard the applications of plugins. Every path here, known or not, is behind its login.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, AwareDatetime

from freshet_airflow.freshness_page.dag_rights import (
    may_see_figures,
    may_see_held,
    may_see_log,
    may_see_validations,
    pipeline_dags,
    seen_by,
)
from freshet_airflow.freshness_page.driver_log import log_end
from freshet_airflow.freshness_page.figures import Figures
from freshet_airflow.freshness_page.held_explorer import HeldExplorer
from freshet_airflow.freshness_page.page_files import (
    DATA_DOCS_POLICY,
    PAGE_POLICY,
    data_docs_file,
    page_file,
    protected,
)
from spark_jobs.definition.fates import PLACES, Place
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.ledger.status.history import HistorySpan
from spark_jobs.reprocessing.held_tuples import HeldFilter

PipelineName = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
FilterText = Annotated[str, Query(max_length=1000, pattern=r"^[^\x00]*$")]


def _utc(moment: datetime | None) -> datetime | None:
    try:
        return None if moment is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it lies outside of the years 1 to 9999, in UTC") from error


@cache
def freshness_page() -> FastAPI:
    """The application, one for each process."""
    figures, explorer = Figures(), HeldExplorer()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        figures.close()
        explorer.close()

    app = FastAPI(
        title="Warehouse freshness",
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_exception_handler(WarehouseUnavailableError, _warehouse_is_away)
    _serve_figures(app, figures)
    _serve_held(app, explorer)
    _serve_files(app)  # last: what is none of the above is one of the page's files, or nothing
    return app


def _serve_figures(app: FastAPI, figures: Figures) -> None:
    @app.get("/api/status")
    async def status(user: GetUserDep) -> JSONResponse:
        """The state of all pipelines that the user may see."""
        read = await figures.status()
        seen = await run_in_threadpool(seen_by, user, read["pipelines"])
        shown = {status["name"]: read["figures"][status["name"]] for status in seen}
        return _figures({**read, "figures": shown, "pipelines": seen})

    @app.get("/api/history")
    async def history(pipeline: PipelineName, span: HistorySpan, user: GetUserDep) -> JSONResponse:
        """Rates and freshness of a pipeline over time."""
        if not await run_in_threadpool(may_see_figures, pipeline, user):
            raise HTTPException(404)
        return _figures(await figures.history(pipeline, span))

    @app.get("/api/events")
    async def events(pipeline: PipelineName, user: GetUserDep) -> JSONResponse:
        """What has happened to a pipeline, and how often its target was kept."""
        if not await run_in_threadpool(may_see_figures, pipeline, user):
            raise HTTPException(404)
        happened = await figures.events(pipeline)
        if not await run_in_threadpool(may_see_validations, pipeline, user):
            happened = [event for event in happened if event["kind"] != "validation"]
        return _figures({"events": happened, **await figures.objective(pipeline)})

    @app.get("/api/log")
    async def log(pipeline: PipelineName, user: GetUserDep) -> JSONResponse:
        """The end of the newest driver's log."""
        files = {status["name"]: status["log_file"] for status in (await figures.status())["pipelines"]}
        file = files.get(pipeline)
        # Pipelines that share a driver log to one file.
        told_of = {pipeline} if file is None else {name for name, each in files.items() if each == file}
        if not await run_in_threadpool(may_see_log, told_of, user):
            raise HTTPException(404)
        return _figures({"lines": await run_in_threadpool(log_end, file)})


def _serve_held(app: FastAPI, explorer: HeldExplorer) -> None:
    @app.get("/api/held")
    async def held(
        pipeline: PipelineName,
        user: GetUserDep,
        place: Annotated[list[Place], Query()] = list(PLACES),  # noqa: B006
        reason: FilterText = "",
        text: FilterText = "",
        since: Annotated[AwareDatetime | None, AfterValidator(_utc)] = None,
    ) -> JSONResponse:
        """Why tuples are held, and some of them."""
        if not await run_in_threadpool(may_see_held, pipeline, user):
            raise HTTPException(404)
        return _figures(await explorer.look(HeldFilter(pipeline, tuple(place), reason, text, since)))

    @app.get("/api/dags")
    def dags(pipeline: PipelineName, user: GetUserDep) -> JSONResponse:
        """The pipeline's DAGs, and whether this user may run them."""
        return _figures({"dags": pipeline_dags(pipeline, user)})


def _serve_files(app: FastAPI) -> None:
    @app.get("/docs/{pipeline}/{path:path}")
    async def data_docs(pipeline: str, path: str, request: Request, user: GetUserDep) -> Response:
        """A page of Great Expectations on the pipeline's facts."""
        return protected(await data_docs_file(pipeline, path, request, user), DATA_DOCS_POLICY)

    @app.get("/{path:path}")
    async def files(path: str, request: Request) -> Response:
        """A file of the page."""
        return protected(await page_file(path, request), PAGE_POLICY)


def _figures(content: dict[str, Any]) -> JSONResponse:
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


async def _warehouse_is_away(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, status_code=503, headers={"Cache-Control": "no-store"})
