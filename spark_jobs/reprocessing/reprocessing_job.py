"""The driver's side of a reprocessing run: takes due tuples chunk by chunk, until none is left or it has to yield."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from psycopg2 import extensions

from spark_jobs.control.cluster import settle_in_cluster
from spark_jobs.control.registration import check_registered
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import JOINED_LATE
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.heartbeat import Heartbeat
from spark_jobs.errors import FreshetError, WarehouseUnavailableError, WriterFencedError
from spark_jobs.ledger.status.overload import stream_load
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.batch_plan import BatchPlan
from spark_jobs.reprocessing.chunk_failure import note_failure, tuples_may_be_to_blame
from spark_jobs.reprocessing.due_tuples import DueTuples, Slice
from spark_jobs.reprocessing.late_due import PutOff
from spark_jobs.reprocessing.late_tuples import LateTuples
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.run_ledger import EndState
from spark_jobs.reprocessing.settlement import ReprocessingRun, RetryPolicy
from spark_jobs.settings import Home, home
from spark_jobs.task_errors import cause_of
from spark_jobs.warehouse.connection import connect
from spark_jobs.warehouse.connection_pool import ConnectionPool

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

# Tuples of a chunk share the pages of R that they need. More would share more, but a run yields between chunks only.
CHUNK_TUPLES = 250_000

# The tuples of a chunk that failed are taken in smaller chunks, again and again, until one is small enough to be given
# up, so that the others do not suffer with it.
_CUT = 8
_GIVEN_UP_TUPLES = 64
_MOST_GIVEN_UP = 5

_ASKED_TO_END = "it was asked to end"


class RunEnd(NamedTuple):
    """How a run ended.

    Attributes:
        state: "finished", "yielded" if the stream is overloaded, or "abandoned" if it was asked to end.
        reason: why it ended early; None if it did not.
        left: tuples that were due and that it has not taken.
        put_off: late tuples of several streams that are to be tried again later; None where it did not look for any.
    """

    state: EndState
    reason: str | None = None
    left: int = 0
    put_off: PutOff | None = None


class ReprocessingJob:
    """Makes facts of held tuples, once.

    Args:
        definition: the pipeline.
        warehouse_url: libpq URL of the warehouse.
        request: which tuples, and how.
        make_context: makes the SparkContext; called only if there is something to do.
        installation: with the landed files; default: that of the environment.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        warehouse_url: str,
        request: ReprocessingRequest,
        make_context: Callable[[], SparkContext],
        installation: Home | None = None,
    ) -> None:
        self._home = installation or home()
        self._definition = definition
        self._name = definition.name
        self._url = warehouse_url
        self._request = request
        self._make_context = make_context
        self._connection: extensions.connection | None = None
        self._plan: BatchPlan | None = None
        self._given_up: list[str] = []
        self._late_put_off: str | None = None
        self._chunk_tuples = CHUNK_TUPLES
        self._suspects = 0  # tuples still to come of the last chunk that failed
        self._batch_no: int | None = None
        self._abandoned = False

    def run(self) -> RunEnd:
        """Take what is due, up to the request's limit.

        Raises:
            PipelineDefinitionError: the stream was not started with this fact table and event id.
            SchemaMismatchError: a table is missing or does not fit; the message says what to do.
            WarehouseUnavailableError: the warehouse went away.
            WriterFencedError: the run was silent for so long that the next one presumed it dead.
            FreshetError: some tuples could not be settled. The run went on with the others.
        """
        if not self._is_registered():
            _log.info("%s was never loaded into this warehouse: there is nothing to reprocess", self._name)
            return RunEnd("finished")
        settle_in_cluster(self._connect())
        tables = check_tables(self._connect(), self._definition)
        opened = run_ledger.open_run(self._connect(), self._name, self._request)
        self._batch_no = opened.batch_no
        _log.info("%s: reprocessing run %d has begun", self._name, opened.batch_no)
        beat = partial(run_ledger.heartbeat, batch_no=opened.batch_no)
        pool = ConnectionPool(self._url, f"freshet heartbeat {self._name}")
        heartbeat = Heartbeat(pool, self._name, beat)
        heartbeat.start()
        try:
            end = self._take_all(opened, tables, heartbeat)
            if failures := self._failures():
                raise FreshetError(" ".join(failures))
        except BaseException as error:
            if not self._abandoned:
                self._close(opened.batch_no, "failed", cause_of(error))
            raise
        finally:
            heartbeat.stop()
        self._close(opened.batch_no, end.state, end.reason)
        return end

    def abandon(self) -> None:
        """From another thread: close the run as abandoned. From then on it settles nothing more.

        A run that is not open yet ends itself as soon as it is.
        """
        self._abandoned = True
        if self._batch_no is not None:
            with closing(
                connect(self._url, application_name=f"freshet reprocessing driver {self._name}")
            ) as connection:
                run_ledger.close_run(connection, self._batch_no, "abandoned", {}, _ASKED_TO_END)

    def _take_all(self, opened: run_ledger.OpenedRun, tables: PipelineTables, heartbeat: Heartbeat) -> RunEnd:
        reprocessing = self._definition.reprocessing
        policy = RetryPolicy(reprocessing.most_attempts, reprocessing.first_pause)
        run = ReprocessingRun(tables.event, tables.fact, opened.batch_no, policy)
        if self._abandoned:
            return RunEnd("abandoned", _ASKED_TO_END)
        self._join_late(tables, run)
        with self._connect() as connection, connection.cursor() as cursor:
            lookups, first_pause = self._definition.lookups, policy.first_pause
            due = DueTuples(cursor, self._name, lookups, first_pause, self._request, opened.started_at)
            count = due.count(cursor, self._request.limit)
            run_ledger.note_due(cursor, run.batch_no, count)
        _log.info("%s: %d tuples are due", run, count)
        so_far, former = run_ledger.Progress(count, 0, 0), [Slice("", 0)]
        while count > 0 and so_far.taken < self._request.limit:
            if self._abandoned:
                return RunEnd("abandoned", _ASKED_TO_END, so_far.due - so_far.taken)
            if heartbeat.wanted == "fenced":
                raise WriterFencedError(f"{run} was presumed dead. The next run takes what is left.")
            if busy := self._why_to_yield():
                return RunEnd("yielded", busy, so_far.due - so_far.taken)
            plan = self._planned(tables, run)
            most = self._request.limit - so_far.taken
            with self._connect() as connection, connection.cursor() as cursor:
                slices = due.slices(cursor, min(self._chunk_tuples, most), plan.parts)
                conditions = [due.condition(cursor, part) for part in slices]
                tuples = sum(part.tuples for part in slices)
                # More have become due since they were counted, or others have taken the last of them.
                if so_far.taken + tuples > so_far.due or not slices:
                    run_ledger.note_due(cursor, run.batch_no, so_far.taken + max(tuples, due.count(cursor, most)))
            if not slices:
                break
            if slices == former:
                raise AssertionError(f"{run} takes the same tuples again and again: {slices[0].addresses[:100]}")
            self._settle(plan, run, conditions, tuples)
            so_far, former = run_ledger.progress(self._connect(), run.batch_no), slices
        with self._connect() as connection, connection.cursor() as cursor:
            put_off = PutOff.of(cursor, self._name) if self._definition.streams is not None else None
        if put_off is not None and put_off.tuples:
            _log.info("%s: %s", run, put_off)
        return RunEnd("finished", put_off=put_off)

    def _join_late(self, tables: PipelineTables, run: ReprocessingRun) -> None:
        """Join the late tuples of several streams that are due; what comes of them is shed, and due, too."""
        request = self._request
        if self._definition.streams is None or request.names_some or JOINED_LATE.place not in request.places:
            return
        late = LateTuples(self._connect(), self._definition, tables, self._home, run)
        left = request.limit
        try:
            while left > 0 and not self._abandoned and not self._why_to_yield() and (taken := late.join(left)):
                left -= taken
        except (WriterFencedError, WarehouseUnavailableError):
            raise
        except FreshetError as error:  # a landed file is gone: the others may do without
            _log.error("%s: late tuples are not joined: %s", run, error)
            self._late_put_off = str(error)

    def _settle(self, plan: BatchPlan, run: ReprocessingRun, conditions: list[str], tuples: int) -> None:
        """Settle a chunk; one that fails is left for smaller ones to try, or given up if it is small."""
        started = time.perf_counter()
        try:
            plan.settle(conditions)
        except Exception as error:
            if self._abandoned or not tuples_may_be_to_blame(error):
                raise
            reason = cause_of(error)
            if tuples > _GIVEN_UP_TUPLES:
                self._chunk_tuples = max(tuples // _CUT, _GIVEN_UP_TUPLES)
                self._suspects = tuples
                _log.warning(
                    "%s: a chunk failed; its tuples are taken %d at a time: %s", run, self._chunk_tuples, reason
                )
                return
            self._give_up(run, conditions, reason)
            self._suspects = 0
        else:
            self._suspects -= tuples
        if self._suspects <= 0:
            self._chunk_tuples = CHUNK_TUPLES
        self._tell(run, tuples, time.perf_counter() - started)

    def _give_up(self, run: ReprocessingRun, conditions: list[str], reason: str) -> None:
        _log.error("%s: tuples are put off: %s", run, reason)
        for condition in conditions:
            with self._connect() as connection, connection.cursor() as cursor:
                note_failure(cursor, run, condition, reason)
        self._given_up.append(reason)
        if len(self._given_up) >= _MOST_GIVEN_UP:
            raise FreshetError(
                f"{run} was given up after {_MOST_GIVEN_UP} chunks that failed. The last error: {reason}"
            )

    def _failures(self) -> list[str]:
        """What the run could not do, though it went on."""
        failures = []
        if self._late_put_off:
            failures.append(f"Late tuples were put off: {self._late_put_off}.")
        if self._given_up:
            failures.append(
                f"Tuples of {len(self._given_up)} chunks could not be settled; they are held with the reason, and "
                f"tried again later. The last error: {self._given_up[-1]}"
            )
        return failures

    def _planned(self, tables: PipelineTables, run: ReprocessingRun) -> BatchPlan:
        if self._plan is None:
            self._plan = BatchPlan(
                self._make_context(), self._definition, tables, self._url, self._request.algorithm, run
            )
        return self._plan

    def _why_to_yield(self) -> str | None:
        """How the stream needs the machine for itself; None where it does not, or the run is not to yield."""
        return stream_load(self._connect(), self._name).reason if self._request.yields else None

    def _is_registered(self) -> bool:
        with self._connect() as connection, connection.cursor() as cursor:
            return check_registered(cursor, self._name, self._definition.model_dump(mode="json", by_alias=True))

    def _tell(self, run: ReprocessingRun, tuples: int, seconds: float) -> None:
        so_far = run_ledger.progress(self._connect(), run.batch_no)
        _log.info(
            "%s: %d of %d tuples taken, %d became facts (the last %d at %.0f/s)",
            *(run, so_far.taken, so_far.due, so_far.facts, tuples, tuples / seconds),
        )

    def _close(self, batch_no: int, state: EndState, reason: str | None) -> None:
        statistics = self._plan.statistics() if self._plan is not None else {}
        run_ledger.close_run(self._connect(), batch_no, state, statistics, reason)
        _log.info("%s: reprocessing run %d is %s%s", self._name, batch_no, state, f": {reason}" if reason else "")

    def _connect(self) -> extensions.connection:
        """The driver's connection to the warehouse; a new one where the former was lost."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, application_name=f"freshet reprocessing driver {self._name}")
        return self._connection
