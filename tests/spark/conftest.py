"""One Spark session for all tests of the Spark plan, and a shop to load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver.session import join_context
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from spark_jobs.source.files import landed_files
from tests.spark.shop import TABLES, query, sales_definition, write_definition


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with join_context("tests", Home(tmp_path_factory.mktemp("spark")), "local[2,4]") as context:
        yield context


@pytest.fixture
def shop_url(warehouse_url: str) -> str:
    query(warehouse_url, TABLES)
    return warehouse_url


class Shop:
    """Loads and verifies the shop's pipelines in one warehouse and home."""

    def __init__(self, folder: Path, url: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.folder = folder
        self.url = url
        self.home = Home(folder / "home")
        self.spark = spark

    def define(self, definition: dict[str, Any] | None = None, **changes: Any) -> None:
        self.path = write_definition(self.folder, definition or sales_definition(self.folder, **changes))

    def one_file_a_batch(self) -> None:
        """Cut what lands into small batches."""
        self._monkeypatch.setattr(landed_files, "MOST_RANGES", 1)

    def load(self) -> None:
        """Load all that has landed."""
        StreamJob(load_definition(self.path), self.home, self.url).run(self.spark, once=True)

    def verify(self) -> Proof:
        return verify(load_definition(self.path), self.url, self.home)


@pytest.fixture
def shop(tmp_path: Path, shop_url: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(tmp_path, shop_url, spark, monkeypatch)
    shop.define()
    return shop
