"""However often hot tuples are published, at most two versions of them stand: the newest, and the one in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.hot_set.front_stage.published_versions import Published, PublishedVersions
from spark_jobs.joins.semi_stream.front_stage import HotSet
from spark_jobs.relation.key_kinds import KeyKind
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.stages.batch_context import HotTuples


class Versions(PublishedVersions):
    """Remembers the files in which Spark's driver keeps what was published."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark.sparkContext, "hot-of-test")
        self._folder = Path(spark.sparkContext._temp_dir)
        self._others = set(self._folder.iterdir())

    def standing(self) -> int:
        return len(set(self._folder.iterdir()) - self._others)


@pytest.fixture
def versions(spark: Any) -> Iterator[Versions]:
    versions = Versions(spark)
    yield versions
    versions.close()
    assert versions.standing() == 0


def hot_tuples(number: int) -> HotTuples:
    codes = np.array([number])
    keys = KeyColumns((KeyKind.INTEGER,), codes, None, np.ones(1, bool))
    return HotTuples(HotSet(0, codes), RelationRows(keys, pa.table({"city": [f"city {number}"]})))


def city(published: Published | None) -> str:
    assert published is not None
    [name] = published.broadcast.value().rows.columns["city"].to_pylist()
    return name


def test_without_a_batch_the_newest_version_alone_stands(versions: Versions) -> None:
    for number in range(1, 20):
        versions.publish(number, hot_tuples(number))
        assert versions.standing() == 1
    assert city(versions.use_newest()) == "city 19"


def test_the_version_in_use_stands_until_the_next_batch_begins(versions: Versions) -> None:
    versions.publish(1, hot_tuples(1))
    in_use = versions.use_newest()
    for number in range(2, 20):
        versions.publish(number, hot_tuples(number))
        assert versions.standing() == 2
    assert versions.in_use is in_use
    assert city(in_use) == "city 1"
    assert city(versions.use_newest()) == "city 19"
    assert versions.standing() == 1
    assert versions.use_newest() is versions.in_use
    assert versions.standing() == 1


def test_a_version_that_comes_after_a_newer_one_is_withdrawn_at_once(versions: Versions) -> None:
    versions.publish(2, hot_tuples(2))
    versions.publish(1, hot_tuples(1))
    assert versions.standing() == 1
    assert city(versions.use_newest()) == "city 2"
    versions.publish(1, hot_tuples(1))
    assert versions.standing() == 1
