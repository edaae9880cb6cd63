"""A driver whose JVM is killed ends, though its pipeline has nothing to do and asks nothing of Spark."""

from __future__ import annotations

import psutil
import pytest

from tests.faults.conftest import FaultyShop
from tests.spark.shop import query
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


def test_an_idle_driver_whose_jvm_is_killed_ends_and_says_why(shop: FaultyShop) -> None:
    driver = shop.drive()
    living = "SELECT epoch FROM freshet.driver WHERE state = 'running' AND unread_files = 0"
    wait_for(lambda: query(shop.url, living), "an idle driver", 300)
    family = psutil.Process(driver.process.pid).children(recursive=True)
    [java] = [process for process in family if process.name() == "java"]
    java.kill()
    assert driver.wait() != 0
    assert "Spark has stopped" in driver.log.read_text().splitlines()[-1]
    [(state, error)] = query(shop.url, "SELECT state, error FROM freshet.driver")
    assert state == "failed"
    assert "Spark has stopped" in error
    assert not psutil.wait_procs(family, timeout=60)[1]
