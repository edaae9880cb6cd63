"""One read for all who ask at about the same time."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from freshet_airflow.freshness_page.warehouse_reader import SharedRead

from spark_jobs.errors import WarehouseUnavailableError

LONG = 60.0
THREADS = ThreadPoolExecutor(1)


class Counted:
    """A read that counts how often it is made, and may wait or fail."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.times = 0
        self._before = before

    def __call__(self) -> int:
        self.times += 1
        self._before()
        return self.times


def test_who_asks_at_once_shares_one_read() -> None:
    read = Counted()

    async def browsers() -> list[int]:
        shared = SharedRead(THREADS, read, max_age_seconds=LONG, patience_seconds=LONG)
        return [*await asyncio.gather(*(shared.value() for _ in range(20))), await shared.value()]

    assert asyncio.run(browsers()) == [1] * 21


def test_an_old_result_is_read_again() -> None:
    async def twice() -> list[int]:
        shared = SharedRead(THREADS, Counted(), max_age_seconds=-1.0, patience_seconds=LONG)
        return [await shared.value(), await shared.value()]

    assert asyncio.run(twice()) == [1, 2]


def test_a_failure_is_shared_while_it_is_young() -> None:
    def fail() -> None:
        raise WarehouseUnavailableError("away")

    read = Counted(fail)

    async def browsers() -> None:
        shared = SharedRead(THREADS, read, max_age_seconds=LONG, patience_seconds=LONG)
        for _ in range(3):
            with pytest.raises(WarehouseUnavailableError, match="away"):
                await shared.value()

    asyncio.run(browsers())
    assert read.times == 1


def test_who_loses_patience_leaves_the_read_to_the_others() -> None:
    answered = threading.Event()
    read = Counted(answered.wait)

    async def browsers() -> int:
        shared = SharedRead(THREADS, read, max_age_seconds=LONG, patience_seconds=0.01)
        with pytest.raises(WarehouseUnavailableError, match="has not answered"):
            await shared.value()
        answered.set()
        while True:
            try:
                return await shared.value()
            except WarehouseUnavailableError:
                await asyncio.sleep(0.01)

    assert asyncio.run(browsers()) == 1
    assert read.times == 1


def test_a_read_that_has_not_begun_when_all_have_left_is_dropped() -> None:
    answered = threading.Event()
    slow, queued = Counted(answered.wait), Counted()

    async def browsers() -> int:
        first = SharedRead(THREADS, slow, max_age_seconds=LONG, patience_seconds=LONG)
        second = SharedRead(THREADS, queued, max_age_seconds=LONG, patience_seconds=0.01)
        reading = asyncio.create_task(first.value())
        await asyncio.sleep(0)
        with pytest.raises(WarehouseUnavailableError, match="has not answered"):
            await second.value()
        answered.set()
        await reading
        assert queued.times == 0
        return await SharedRead(THREADS, queued, max_age_seconds=LONG, patience_seconds=LONG).value()

    assert asyncio.run(browsers()) == 1
