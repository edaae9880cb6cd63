"""The DAG files: what DAGs they make, and what a faulty pipeline does to them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from spark_jobs.settings import PROJECT_ROOT

DAGS = PROJECT_ROOT / "dags"
SHIPPED = {"fulfilment", "orders", "order_lines"}


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    shutil.copytree(DAGS / "pipelines", folder)
    monkeypatch.setenv("FRESHET_PIPELINES", str(folder))
    return folder


def load() -> DagBag:
    return DagBag(DAGS)


def pipelines_with(job: str, bag: DagBag) -> set[str]:
    """The pipelines that have a DAG of this kind."""
    return {dag_id.removeprefix(f"{job}__") for dag_id in bag.dag_ids if dag_id.startswith(f"{job}__")}


@pytest.mark.parametrize("job", ["stream_load", "rebuild_cache", "reprocess_shed", "forget_held"])
def test_each_pipeline_has_its_dags(job: str) -> None:
    bag = load()
    assert not bag.import_errors
    assert pipelines_with(job, bag) == SHIPPED


IMPORTED_BY_EACH = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
seen, files = {}, json.loads(sys.argv[1])
for file in files:
    before = set(sys.modules)
    assert not DagBag(file).import_errors
    seen[file] = sorted(set(sys.modules) - before)
print(json.dumps(seen))
"""
HEAVY = {"numpy", "pyarrow", "pyspark", "pandas", "great_expectations"}


def test_reading_a_dag_file_imports_nothing_heavy(tmp_path: Path) -> None:
    """Airflow reads each file again and again; what it imports itself for the barest of DAGs does not count."""
    bare = tmp_path / "bare.py"
    bare.write_text("from airflow.sdk import DAG\nDAG(dag_id='bare')\n")
    files = [str(bare), *(str(file) for file in sorted(DAGS.glob("*.py")))]
    command = [sys.executable, "-c", IMPORTED_BY_EACH, json.dumps(files)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    imported = json.loads(told.splitlines()[-1])
    assert list(imported) == files
    heavy = {file: HEAVY.intersection(modules) for file, modules in imported.items() if file != str(bare)}
    assert {file: modules for file, modules in heavy.items() if modules} == {}


def test_the_form_offers_start_drain_and_restart() -> None:
    dag = load().dags["stream_load__orders"]
    action = dag.params.get_param("action")
    assert action.value == "start"
    assert action.schema["enum"] == ["start", "drain", "restart"]
    assert set(action.schema["values_display"]) == set(action.schema["enum"])
    assert action.description


def test_a_drain_can_run_beside_the_watching_run() -> None:
    dag = load().dags["stream_load__orders"]
    assert dag.max_active_runs > 1
    assert dag.schedule is None
    assert {"freshet", "stream", "orders"} == set(dag.tags)
    assert [task.task_id for task in dag.topological_sort()] == ["drain", "run"]
    assert "**orders**" in dag.doc_md


def test_a_pipeline_is_added_by_a_file(pipelines: Path) -> None:
    text = (pipelines / "orders.yaml").read_text().replace("warehouse.fact_orders", "warehouse.fact_returns")
    (pipelines / "returns.yaml").write_text(re.sub(r"^name: orders$", "name: returns", text, flags=re.MULTILINE))
    bag = load()
    assert not bag.import_errors
    assert "stream_load__returns" in bag.dags


def test_a_faulty_definition_is_an_import_error_and_all_streams_keep_their_dags(pipelines: Path) -> None:
    (pipelines / "returns.yaml").write_text("name: returns\nsource: {format: xml}\n")
    (pipelines / "gifts.yaml").write_text("name: [\n")
    bag = load()
    (file, error), *others = bag.import_errors.items()
    assert Path(file).name == "pipeline_definitions.py"
    assert not others
    assert "returns.yaml" in error
    assert "source.format" in error
    assert "gifts.yaml" in error
    assert {f"stream_load__{pipeline}" for pipeline in SHIPPED} < set(bag.dag_ids)
    # A stream whose definition was spoilt while it ran can still be drained.
    assert "stream_load__returns" in bag.dags


def test_a_file_that_cannot_be_a_pipeline_does_not_break_the_dags(pipelines: Path) -> None:
    (pipelines / "my orders!.yaml").write_text("name: x\n")
    assert pipelines_with("stream_load", load()) == SHIPPED


@pytest.mark.parametrize("syntax", ["regexp", "glob"])
def test_the_plugins_folder_holds_nothing_that_airflow_executes_by_mistake(syntax: str) -> None:
    from airflow._shared.module_loading import find_path_from_directory

    found = find_path_from_directory(str(PROJECT_ROOT / "plugins"), ".airflowignore", syntax)
    assert {Path(file).name for file in found if file.endswith(".py")} <= {"freshet_plugin.py"}
