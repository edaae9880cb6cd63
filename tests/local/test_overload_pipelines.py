"""The pipelines of a day with overload: sound definitions, with little memory and limits of reading master data."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.definition import load_definitions
from spark_jobs.errors import PlatformError
from spark_jobs.local.bad_day_plan import LOOKUPS, write_overload_pipelines
from spark_jobs.settings import PROJECT_ROOT

SHIPPED = PROJECT_ROOT / "dags" / "pipelines"


def test_the_shipped_pipelines_become_scarce_and_nothing_else_of_them_changes(tmp_path: Path) -> None:
    write_overload_pipelines(SHIPPED, tmp_path, scale=0.1)
    shipped, scarce = load_definitions(SHIPPED), load_definitions(tmp_path)
    assert scarce.keys() == {name for name, definition in shipped.items() if definition.source is not None}
    for name, definition in scarce.items():
        for lookup, before in zip(definition.lookups, shipped[name].lookups, strict=True):
            assert before.read_limit is None
            assert lookup.read_limit == LOOKUPS[lookup.relation].read_limit
            assert lookup.memory < before.memory / 10
            same = {"algorithm": before.algorithm, "memory": before.memory, "read_limit": None}
            assert lookup.model_copy(update=same) == before
        assert definition.source == shipped[name].source
        assert definition.fact == shipped[name].fact
        assert definition.freshness == shipped[name].freshness
        assert definition.validation.expectations == shipped[name].validation.expectations


def test_memory_grows_with_the_master_data(tmp_path: Path) -> None:
    write_overload_pipelines(SHIPPED, tmp_path, scale=1.0)
    [customers] = load_definitions(tmp_path)["orders"].lookups
    assert customers.memory == 10 * LOOKUPS["master.customer"].memory_kilobytes * 1024


def test_pipelines_of_other_relations_stay_as_they_are_and_former_ones_go(tmp_path: Path) -> None:
    pipelines, folder = tmp_path / "pipelines", tmp_path / "overload"
    pipelines.mkdir()
    text = (SHIPPED / "orders.yaml").read_text().replace("name: orders", "name: visits")
    (pipelines / "visits.yaml").write_text(text.replace("master.customer", "master.guest"))
    folder.mkdir()
    (folder / "former.yaml").write_text("name: former")
    write_overload_pipelines(pipelines, folder, scale=0.1)
    assert load_definitions(folder)["visits"].lookups == load_definitions(pipelines)["visits"].lookups


def test_a_scale_at_which_everything_is_hot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"Scale 0\.01 is too small for an overload.* Give 0\.05 or more"):
        write_overload_pipelines(SHIPPED, tmp_path, scale=0.01)
