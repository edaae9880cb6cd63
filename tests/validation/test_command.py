"""The command `freshet validate`, and a validation as a process of its own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import FreshetError, PlatformError
from spark_jobs.validation.process import Request, ValidationProcess
from spark_jobs.validation.selection import Selection
from tests.validation.sales import Sales
from tests.waiting import wait_for

FILLED = {"not_null": ["colour"]}


def write(definition: PipelineDefinition, folder: Path) -> Path:
    path = folder / "sales.yaml"
    content = definition.model_dump(mode="json", by_alias=True, exclude_unset=True)
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def pipeline(sales: Sales, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a pipeline that expects a colour, in an installation whose warehouse is the test's."""
    monkeypatch.setenv("FRESHET_HOME", str(tmp_path))
    monkeypatch.setenv("FRESHET_PIPELINES", str(tmp_path))
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", sales.url)
    return str(write(sales.definition(FILLED, "row_conservation"), tmp_path))


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["validate", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.stdout, result.stderr


def test_the_exit_status_tells_whether_the_facts_are_what_they_must_be(sales: Sales, pipeline: str) -> None:
    sales.load(sales.sales(3))
    assert invoke(pipeline)[:1] == (0,)
    status, output, _ = invoke(pipeline)
    assert (status, output) == (0, "No data: no facts of sales, what was loaded since the last validation.\n")
    sales.load(sales.sales(2, colour=None))
    status, output, _ = invoke(pipeline, "--all", "--json")
    report = json.loads(output)
    assert (status, report["result"], report["facts"], report["failed"]) == (1, "failed", 5, 1)
    assert report["failures"][0].startswith("colour is not null: not so for 2 of 5 facts, for example sale_id 4")
    status, output, _ = invoke(pipeline, "--since", "1h")
    assert status == 1
    assert "- colour is not null: not so for 2 of 5 facts" in output


def test_two_windows_at_once_are_refused(pipeline: str) -> None:
    status, _, told = invoke(pipeline, "--all", "--from-batch", "3")
    assert status == 2
    assert "choose one" in told


def test_what_can_not_be_checked_is_an_error_of_its_own(sales: Sales, tmp_path: Path, pipeline: str) -> None:
    write(sales.definition({"sql": {"name": "typo", "rows": "SELECT colur FROM {facts}"}}), tmp_path)
    sales.load(sales.sales(1))
    status, _, told = invoke(pipeline)
    assert status == 2
    assert 'column "colur" does not exist' in told


def test_a_process_of_its_own_comes_to_the_same_report(
    sales: Sales, pipeline: str, caplog: pytest.LogCaptureFixture
) -> None:
    sales.load(sales.sales(3, colour=None))
    process = ValidationProcess(sales.home, sales.url, logging.getLogger("validation").info)
    with caplog.at_level(logging.INFO):
        report = process.run(Request(pipeline="sales", selection=Selection(), airflow_run="manual"))
    assert (report["result"], report["facts"]) == ("failed", 3)
    assert sales.query("SELECT airflow_run FROM freshet.validation") == [("manual",)]
    assert sales.url not in caplog.text
    with pytest.raises(FreshetError, match="There is no pipeline 'sale'"):
        process.run(Request(pipeline="sale", selection=Selection()))


def test_a_process_that_is_ended_has_not_found_fault_with_the_facts(sales: Sales, pipeline: str) -> None:
    process = ValidationProcess(sales.home, sales.url, logging.getLogger("validation").info)
    with ThreadPoolExecutor(1) as thread:
        validating = thread.submit(process.run, Request(pipeline="sales", selection=Selection()))
        wait_for(lambda: process._process, "the process to be started")
        process.end()
        with pytest.raises(PlatformError, match="was cut off: signal 9 ended its process"):
            validating.result(60)


def test_the_import_of_great_expectations_does_not_bury_a_validation() -> None:
    program = "import logging; logging.basicConfig(level=logging.INFO); import spark_jobs.validation.gx.suite"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len([line for line in ran.stderr.splitlines() if line.startswith("INFO")]) < 10
