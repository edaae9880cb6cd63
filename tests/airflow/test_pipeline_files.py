"""The pipelines folder as the DAG files see it: what is beside the definitions, and what is there twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from spark_jobs.settings import PIPELINES_VARIABLE, PROJECT_ROOT

DAGS = PROJECT_ROOT / "dags"


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    shutil.copytree(DAGS / "pipelines", folder)
    monkeypatch.setenv(PIPELINES_VARIABLE, str(folder))
    return folder


def test_a_pipeline_with_two_files_is_an_import_error_and_all_dags_stay(pipelines: Path) -> None:
    from freshet_airflow.pipelines import pipeline_names

    shutil.copy(pipelines / "orders.yaml", pipelines / "orders.yml")
    assert pipeline_names() == ["fulfilment", "order_lines", "orders"]
    bag = DagBag(DAGS)
    ((file, error),) = bag.import_errors.items()
    assert Path(file).name == "pipeline_definitions.py"
    assert "orders.yaml and orders.yml would both be the pipeline 'orders'" in error
    assert {"stream_load__orders", "stream_load__order_lines"} < set(bag.dag_ids)


def test_what_editors_leave_is_no_pipeline(pipelines: Path) -> None:
    (pipelines / ".#orders.yaml").symlink_to("somebody@somewhere.1")
    assert not DagBag(DAGS).import_errors
