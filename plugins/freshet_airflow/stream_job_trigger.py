"""The trigger that watches a stream's driver from Airflow's triggerer, for as long as the stream runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, TypeVar

import psycopg2
from airflow.triggers.base import BaseTrigger, TriggerEvent
from psycopg2 import extensions

from freshet_airflow.driver_states import state_of_epoch
from freshet_airflow.driver_watch import DriverWatch, Ending, RestartPolicy, Sighting
from freshet_airflow.warehouse_connection import session, warehouse_url_in_trigger
from spark_jobs.control import driver_records, drivers, host_processes
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.launch.detached_driver import DriverLaunch
from spark_jobs.warehouse.connection import takes_writes

_UNREACHABLE = (psycopg2.OperationalError, psycopg2.InterfaceError, WarehouseUnavailableError)

# What is told of a driver that has said nothing of its end itself.
_WORDS = {
    Ending.FAILED: host_processes.GONE,
    Ending.SILENT: "it has fallen silent: its process hangs, or its host can't be reached",
    Ending.NOT_STARTED: "it ended, or took too long, before it took its pipeline over",
}

Answer = TypeVar("Answer")


class StreamJobTrigger(BaseTrigger):
    """Watches a driver in the driver table, and fires once, when it has ended.

    The look at the table runs in a thread: the triggerer's event loop goes on. A warehouse that is away is waited for.
    That a driver died is noted in the table at once, for the status to show, and with it that it is restarted. It is
    reported after the pause that the restart policy asks for, if none has been started by then.
    The event is a dictionary: `ending` (a value of `Ending`), `epoch` and `error` of the driver, and as they were
    given `launch`, `restarts` and `carried`.

    Args:
        pipeline: name of the pipeline.
        warehouse_conn_id: Airflow connection of the warehouse.
        epoch: epoch of the driver to watch; None: of the one that was launched.
        launch: the launch that is under way, as `DriverLaunch.to_json` gives it.
        restarts: when drivers were restarted before, in seconds since 1970.
        policy: the restart policy's fields.
        carried: for the operator, from one deferral to the next.
        poll_seconds: time between two looks.
        max_silence_seconds: a driver without a heartbeat for longer counts as hanging.
        start_timeout_seconds: a launched driver has to take its pipeline over within this time.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        warehouse_conn_id: str,
        epoch: int | None,
        launch: dict[str, Any] | None,
        restarts: list[float],
        policy: dict[str, Any],
        carried: dict[str, Any],
        poll_seconds: float = 1.0,
        max_silence_seconds: float = driver_records.MAX_SILENCE.total_seconds(),
        start_timeout_seconds: float = 300.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.warehouse_conn_id = warehouse_conn_id
        self.epoch = epoch
        self.launch = launch
        self.restarts = restarts
        self.policy = policy
        self.carried = carried
        self.poll_seconds = poll_seconds
        self.max_silence_seconds = max_silence_seconds
        self.start_timeout_seconds = start_timeout_seconds
        self._connection: extensions.connection | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of this class and its arguments."""
        names = (
            *("pipeline", "warehouse_conn_id", "epoch", "launch", "restarts", "policy", "carried"),
            *("poll_seconds", "max_silence_seconds", "start_timeout_seconds"),
        )
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again until the driver has ended."""
        launch = DriverLaunch(**self.launch) if self.launch else None
        policy = RestartPolicy(**self.policy)
        watch = DriverWatch(
            self.epoch,
            launch,
            timedelta(seconds=self.max_silence_seconds),
            timedelta(seconds=self.start_timeout_seconds),
        )
        watched, paused = watch.epoch, False
        while True:
            sighting = await self._ask(lambda connection: _look(connection, self.pipeline, watch.epoch, launch), watch)
            ending = watch.look(sighting, time.monotonic())
            if watch.epoch != watched:
                watched = watch.epoch
                self.log.info("The driver of epoch %s has taken over.", watched)
            if ending is None:
                paused = False
                await asyncio.sleep(self.poll_seconds)
                continue
            if ending is not Ending.STOPPED and not paused and not await self._note(ending, sighting, policy, watch):
                continue  # it has stopped as it was to, just after the look
            if ending in (Ending.STOPPED, Ending.NOT_STARTED) or paused:
                yield self._event(ending, watch.epoch, sighting)
                return
            # Another run may restart the pipeline's driver during the pause: then this goes on watching.
            await asyncio.sleep(policy.pause_seconds(self.restarts, time.time()))
            paused = True

    async def cleanup(self) -> None:
        """Leave the warehouse. The driver is left alone, whatever ends this trigger."""
        self._disconnect()

    async def _note(self, ending: Ending, sighting: Sighting, policy: RestartPolicy, watch: DriverWatch) -> bool:
        """Note for all to see that the driver has ended and is restarted; false if it has stopped as it was to."""
        newest = sighting.newest
        if newest is None or (ending is Ending.NOT_STARTED and not self.restarts):
            return True  # there is no driver that could be said to have ended
        restart = policy.next_try(self.restarts, time.time())
        noted = await self._ask(
            lambda connection: drivers.note_end(connection, self.pipeline, newest.epoch, _WORDS[ending], restart), watch
        )
        return noted or ending is Ending.NOT_STARTED

    async def _ask(self, question: Callable[[extensions.connection], Answer], watch: DriverWatch) -> Answer:
        """Ask the warehouse, in a thread, until it answers."""
        reported = False
        while True:
            try:
                if self._connection is None:
                    url = await warehouse_url_in_trigger(self.warehouse_conn_id)
                    self._connection = await asyncio.to_thread(
                        session, url, f"freshet watch {self.pipeline}", timedelta(0)
                    )
                return await asyncio.to_thread(question, self._connection)
            except _UNREACHABLE as error:
                if not reported:
                    self.log.warning("The warehouse does not answer; waiting for it. %s", str(error).strip())
                reported = True
                self._disconnect()
                watch.forget_silence()
                await asyncio.sleep(self.poll_seconds)

    def _event(self, ending: Ending, epoch: int | None, sighting: Sighting) -> TriggerEvent:
        error = (sighting.newest.error if sighting.newest else None) or _WORDS.get(ending)
        return TriggerEvent(
            {
                "ending": ending.value,
                "epoch": epoch,
                "error": error,
                "launch": self.launch,
                "restarts": self.restarts,
                "carried": self.carried,
            }
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _look(connection: extensions.connection, pipeline: str, epoch: int | None, launch: DriverLaunch | None) -> Sighting:
    if not takes_writes(connection):
        raise WarehouseUnavailableError("It takes no writes, and no driver's heartbeat: it is a standby, or read-only.")
    newest = driver_records.newest_driver(connection, pipeline)
    watched_state = state_of_epoch(connection, pipeline, epoch) if epoch is not None else None
    return Sighting(newest, watched_state, launch is None or launch.is_running())
