"""A bad day in phases: calm, a burst several times over capacity, a changed dimension in its middle, and calm again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from rich.console import Console
from rich.markup import escape

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import PlatformError
from spark_jobs.ledger.period import LedgerPeriod, operations_since, read_period, validated_since, warehouse_time
from spark_jobs.local.bad_day_figures import BadDayFigures, Capacity, capacity
from spark_jobs.local.bad_day_plan import BURST_AT, BURST_ENDS_AT, CHANGE_AT, LATE_ORDERS_AT, WARM_AT, Overload
from spark_jobs.local.changed_dimension import (
    PIPELINE,
    DimensionChange,
    change_dimension,
    land_orders_of_new_customers,
    time_to_reach_facts,
)
from spark_jobs.local.streaming import REFRESH_SECONDS, Watched
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import connect
from spark_jobs.workload.rates import steer

BACKLOG_BOUND = timedelta(seconds=300)


class _CutShort(Exception):  # noqa: N818 - no error: the user wants the day to end
    """A tick has said that the streams are to end."""


class BadDay:
    """The course of the day. It only steers the workload and changes master data: all else the platform does by itself.

    Args:
        overload: what it is to be like.
        definitions: the pipelines, which have limits of reading their relations.
        home: the installation.
        calm_rate: orders a second in calm times; the workload has begun with `WARM_UP_RATE` of it.
        console: shows what happens.

    Raises:
        PlatformError: the shipped pipeline, whose dimension changes, is not there.

    Attributes:
        figures: what was measured so far.
    """

    def __init__(
        self,
        overload: Overload,
        definitions: Mapping[str, PipelineDefinition],
        home: Home,
        calm_rate: float,
        console: Console,
    ) -> None:
        if PIPELINE not in definitions:
            raise PlatformError(
                f"A bad day needs the shipped pipeline {PIPELINE}, but there are {', '.join(definitions) or 'none'}. "
                "Unset FRESHET_PIPELINES, or put it there."
            )
        self.figures = BadDayFigures(overload.factor, BACKLOG_BOUND)
        self.figures.targets = {
            name: definition.freshness.target.total_seconds() for name, definition in definitions.items()
        }
        self._overload = overload
        self._definitions = definitions
        self._home = home
        self._calm_rate = calm_rate
        self._console = console

    def run(self, watched: Watched) -> None:
        """Live through the day; a Course.

        Raises:
            PlatformError: the capacity can't be determined, or a process has ended by itself.
            WarehouseUnavailableError: the warehouse does not answer.
        """
        self._watched = watched
        self._began = time.monotonic()
        with contextlib.closing(connect(watched.warehouse_url, application_name="freshet up")) as self._connection:
            self._began_at = self._now()
            with contextlib.suppress(_CutShort):
                new_customers = self._calm()
                ended_at, change = self._burst(new_customers)
                self._calm_again(ended_at, change)

    def _calm(self) -> list[int]:
        overload = self._overload
        self._tell(f"Calm: {self._calm_rate:g} orders/s for {overload.at(BURST_AT):.0f} s, to learn the capacity.")
        self._pass_until(WARM_AT)
        steer(self._home.workload_rate, self._calm_rate)
        self._pass_until(LATE_ORDERS_AT)
        with self._connection, self._connection.cursor() as cursor:
            new_customers = land_orders_of_new_customers(cursor, self._home)
        since = self._now()
        self._pass_until(BURST_AT)
        self.figures.capacity = found = self._capacity(since)
        self.figures.burst_rate = overload.factor * found.orders_per_second
        self._tell(
            f"The streams can carry {found.orders_per_second:,.0f} orders/s: then {found.relation}, of which "
            f"{found.demand:,.0f} tuples/s are read now, is read at its limit of {found.limit:g} tuples/s."
        )
        return new_customers

    def _burst(self, new_customers: list[int]) -> tuple[datetime, DimensionChange]:
        assert self.figures.burst_rate is not None
        rate, overload = self.figures.burst_rate, self._overload
        seconds = overload.at(BURST_ENDS_AT - BURST_AT)
        self._tell(f"Burst: {rate:,.0f} orders/s for {seconds:.0f} s, {overload.factor:g} times the capacity.")
        began_at = self._now()
        steer(self._home.workload_rate, rate)
        try:
            self._pass_until(CHANGE_AT)
            change = change_dimension(self._connection, new_customers)
            self._tell(
                f"{len(change.hot)} hot and {change.cold} cold customers have moved to another market segment; "
                f"{change.new} are new, whose orders came before them."
            )
            self._pass_until(BURST_ENDS_AT)
        finally:
            steer(self._home.workload_rate, self._calm_rate)
            ended_at = self._now()
        self._tell(
            f"Calm again: {self._calm_rate:g} orders/s. What was shed is to be loaded by Airflow's schedule alone, "
            f"within {BACKLOG_BOUND.total_seconds():.0f} s."
        )
        # What arrived at the end of the burst is committed a little later.
        self._pass(max(self.figures.targets.values()))
        self.figures.burst = self._spans(began_at, self._now())
        return ended_at, change

    def _calm_again(self, ended_at: datetime, change: DimensionChange) -> None:
        """Until the day is over and everything has been done, or the bound is reached."""
        while True:
            now = self._now()
            self._look(ended_at, change, now)
            is_over = time.monotonic() - self._began >= self._overload.at(1.0)
            if (is_over and self._is_done()) or now - ended_at > max(BACKLOG_BOUND, self._overload.duration / 2):
                return
            self._tick(REFRESH_SECONDS, self._waits_for())

    def _look(self, ended_at: datetime, change: DimensionChange, now: datetime) -> None:
        figures = self.figures
        with self._connection, self._connection.cursor() as cursor:
            figures.operations = operations_since(cursor, list(self._definitions), self._began_at)
            figures.validated = validated_since(cursor, ended_at)
            if figures.change_reached is None:
                figures.change_reached = time_to_reach_facts(cursor, change)
        if figures.operations.backlog == 0 and figures.backlog_gone is None and now - ended_at <= BACKLOG_BOUND:
            figures.backlog_gone = now - ended_at
            self._tell(
                f"Everything that was shed is loaded, {figures.backlog_gone.total_seconds():.0f} s after the burst."
            )

    def _is_done(self) -> bool:
        figures = self.figures
        return (
            figures.backlog_gone is not None
            and figures.change_reached is not None
            and figures.validated >= set(self._definitions)
        )

    def _waits_for(self) -> str:
        figures = self.figures
        backlog = figures.operations.backlog if figures.operations else 0
        if backlog:
            return f"{backlog:,} tuples wait to be loaded."
        missing = sorted(self._definitions.keys() - figures.validated)
        return f"Validation of {', '.join(missing)} is to come." if missing else ""

    def _capacity(self, since: datetime) -> Capacity:
        spans = self._spans(since, self._now())
        found = capacity(self._calm_rate, [(self._definitions[name], span) for name, span in spans.items()])
        if found is None:
            raise PlatformError(
                "The streams' capacity can't be determined: in the calm time no relation with a read_limit was read. "
                "Give their lookups less memory, or a larger --rate."
            )
        return found

    def _spans(self, since: datetime, until: datetime) -> dict[str, LedgerPeriod]:
        with self._connection, self._connection.cursor() as cursor:
            return {name: read_period(cursor, name, since, until) for name in self._definitions}

    def _now(self) -> datetime:
        with self._connection, self._connection.cursor() as cursor:
            return warehouse_time(cursor)

    def _pass_until(self, share: float) -> None:
        self._pass(self._began + self._overload.at(share) - time.monotonic())

    def _pass(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            self._tick(min(left, REFRESH_SECONDS))

    def _tick(self, seconds: float, doing: str = "") -> None:
        if not self._watched.tick(seconds, doing):
            raise _CutShort

    def _tell(self, text: str) -> None:
        elapsed = timedelta(seconds=round(time.monotonic() - self._began))
        self._console.print(f"[bold cyan]{elapsed}[/]  {escape(text)}", highlight=False, soft_wrap=True)
