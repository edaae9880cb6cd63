"""`freshet calibrate`: what reading the relations of a pipeline costs, or a local disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE, Home
from spark_jobs.workload.tpch import seed


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no warehouse that comes from outside."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.delenv(WAREHOUSE_URL_VARIABLE, raising=False)
    return tmp_path


def calibrate(*arguments: str) -> tuple[int, str, str]:
    """Exit status, output and error output of the command."""
    result = CliRunner().invoke(app, ["calibrate", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def seeded(warehouse_url: str, installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse with a little of TPC-H."""
    seed(warehouse_url, Home(installation), 0.001, lambda _step, _share: None)
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)


@pytest.mark.usefixtures("seeded")
def test_each_relation_of_a_pipeline_is_measured() -> None:
    status, output, _ = calibrate("order_lines", "--json")
    assert status == 0
    part, supplier = json.loads(output)
    assert (part["relation"], part["row_count"]) == ("master.part", 200)
    assert supplier["relation"] == "master.supplier"
    for costs in (part, supplier):
        assert costs["reading"]["costs"]["lookup_overhead_seconds"] > 0
        assert all(read["seconds"] > 0 for read in costs["reading"]["page_reads"])
        for processor in (costs["processor"], costs["processor"]["multimap"]):
            assert processor["probe"] > 0
            assert processor["append"] > 0
        assert all(rate > 0 for rates in costs["predicted"].values() for rate in rates.values())
        assert {"hybrid_join", "batched_index_nested_loop"} <= costs["predicted"]["1.0"].keys()


@pytest.mark.usefixtures("seeded")
def test_all_pipelines_are_measured_if_none_is_named() -> None:
    status, output, _ = calibrate("--disk", "postgres")
    assert status == 0
    for relation in ("master.customer", "master.part", "master.supplier"):
        assert f"{relation}: " in output


def test_an_empty_relation_has_costs_but_nothing_is_predicted(
    warehouse_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, warehouse_url)
    assert calibrate("orders")[0] == 0
    status, output, _ = calibrate("orders", "--json")
    assert status == 0
    [customer] = json.loads(output)
    assert customer["row_count"] == 0
    assert not any(customer["predicted"].values())


def test_a_local_disk_is_measured_and_left_as_it_was(installation: Path) -> None:
    status, output, _ = calibrate()
    assert status == 0
    for said in ("local disk", "seek", "throughput", "lookup of one key", "c_H"):
        assert said in output
    assert not list(installation.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ordres"], "Did you mean 'orders'?"),
        (["orders"], "There is no warehouse"),
        (["--disk", "postgres"], "There is no warehouse"),
        (["orders", "--disk", "direct"], "leave out either of the two"),
        (["--disk", "floppy"], "'postgres', 'direct'"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], said: str) -> None:
    status, _, error = calibrate(*arguments)
    assert status == 2
    assert said in error
    assert "Traceback" not in error
