from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from spark_jobs.definition import (
    Default,
    PipelineDefinition,
    definition_files,
    load_definition,
    load_definitions,
)
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE
from spark_jobs.settings import PIPELINES_VARIABLE, Home

MINIMAL = """
name: visits
source: {format: csv, path: /landing/visits, schema: "id string, at timestamp", event_id: [id], event_time: at}
fact: {table: warehouse.visits, columns: {id: id}}
"""


def write(folder: Path, text: str, name: str = "visits.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_shipped_pipelines_are_right() -> None:
    definitions = load_definitions()
    assert set(definitions) == {"orders", "order_lines", "fulfilment"}
    orders, lines = definitions["orders"], definitions["order_lines"]
    assert [lookup.relation for lookup in orders.lookups] == ["master.customer"]
    assert orders.lookups[0].algorithm == "cached_hybrid_join"
    assert [lookup.relation for lookup in lines.lookups] == ["master.part", "master.supplier"]
    assert lines.source.event_id == ("l_orderkey", "l_linenumber")
    assert orders.freshness.target == timedelta(seconds=5)
    assert orders.lookups[0].memory == 64 * 2**20
    assert landing_folder(orders.source, Home(Path("/srv/home"))) == Path("/srv/home/landing/orders")


def test_a_pipeline_without_lookups_is_a_plain_load_with_defaults(tmp_path: Path) -> None:
    definition = load_definition(write(tmp_path, MINIMAL))
    assert definition.lookups == ()
    assert definition.shedding.policy == "considered"
    assert definition.freshness.target == timedelta(seconds=5)
    assert landing_folder(definition.source, Home(tmp_path)) == Path("/landing/visits")


def test_what_is_kept_may_be_kept_for_a_day_for_a_century_or_for_ever(tmp_path: Path) -> None:
    retention = "retention: {ledger: 1d, rejected: 36525d, shed: 5m, unmatched: null}\n"
    kept = load_definition(write(tmp_path, MINIMAL + retention)).retention
    assert (kept.ledger, kept.rejected) == (timedelta(days=1), timedelta(days=36_525))
    assert (kept.shed, kept.unmatched) == (timedelta(minutes=5), None)


def test_on_and_off_are_words_and_options_may_be_written_as_yaml_values(tmp_path: Path) -> None:
    definition = load_definition(
        write(
            tmp_path,
            MINIMAL.replace("event_time: at}", 'event_time: at, options: {header: true, sep: ";"}}')
            + "lookups:\n  - {relation: m.r, on: {id: key}, fetch: {sk: sk}, on_unmatched: {default: {sk: -1}}}\n"
            + "shedding: {policy: off}\nfreshness: {target: 1m30s}\n",
        )
    )
    assert definition.lookups[0].on == {"id": "key"}
    assert definition.lookups[0].on_unmatched == Default(default={"sk": -1})
    assert definition.shedding.policy == "off"
    assert definition.source.options == {"header": "true", "sep": ";"}
    assert definition.freshness.target == timedelta(seconds=90)


def test_a_definition_survives_its_json() -> None:
    for definition in load_definitions().values():
        assert PipelineDefinition.model_validate_json(definition.model_dump_json(by_alias=True)) == definition


def test_a_definition_made_in_python_is_checked_too() -> None:
    with pytest.raises(ValidationError, match=r"source.event_id\[0\]: 'idd' is not a column"):
        PipelineDefinition.model_validate(
            {
                "name": "visits",
                "source": {"format": "csv", "path": "/x", "schema": "id int, at timestamp", "event_id": ["idd"],
                           "event_time": "at"},
                "fact": {"table": "w.f", "columns": {"id": "id"}},
            }
        )  # fmt: skip


def test_pipelines_are_found_by_name_in_the_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIPELINES_VARIABLE, str(tmp_path))
    write(tmp_path, MINIMAL)
    write(tmp_path, MINIMAL.replace("visits", "sales"), "sales.yml")
    write(tmp_path, "no pipeline", "notes.txt")
    write(tmp_path, "what an editor keeps", ".visits.yaml")
    (tmp_path / ".#sales.yml").symlink_to("somebody@somewhere.1")  # Emacs' lock, which leads nowhere
    assert load_definition("visits").name == "visits"
    assert set(load_definitions()) == {"visits", "sales"}
    assert [path.name for path in definition_files(tmp_path)] == ["sales.yml", "visits.yaml"]


def test_importing_and_loading_stays_light_for_dag_files() -> None:
    heavy = ("pyspark", "airflow", "pyarrow", "numpy", "numba", "psycopg2", "sqlalchemy")
    program = (
        "import sys; from spark_jobs.definition import load_definitions; load_definitions();"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize("algorithm", ["auto", *CATALOGUE])
def test_every_algorithm_of_the_catalogue_may_be_named(tmp_path: Path, algorithm: str) -> None:
    lookup = f"lookups:\n  - {{relation: m.r, on: {{id: key}}, fetch: {{sk: sk}}, algorithm: {algorithm}}}\n"
    assert load_definition(write(tmp_path, MINIMAL + lookup)).lookups[0].algorithm == algorithm
