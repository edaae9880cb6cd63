"""The rooms of joins and columns point at no engine, no database, no network, no clock."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import spark_jobs.columns
import spark_jobs.joins

ROOM = Path(spark_jobs.joins.__file__).parent
GROUND = Path(spark_jobs.columns.__file__).parent
# What joins use of the ground floor: the compiler and the hash codes.
GROUND_OF_JOINS = {"spark_jobs.columns.jit", "spark_jobs.columns.hashing"}
LIBRARIES = {"numpy", "numba", "llvmlite", "pyarrow", "scipy"}
STANDARD = {
    "__future__",
    "abc",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "importlib",
    "itertools",
    "math",
    "operator",
    "statistics",
    "typing",
}

IMPORT_ALL = """
import importlib, json, pkgutil, sys
room = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
    importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def imported_modules(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module))
    return names


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_a_module_imports_arrays_and_its_own_room_only(path: Path) -> None:
    for name in imported_modules(path):
        if name.startswith("spark_jobs"):
            assert name in {"spark_jobs.errors", *GROUND_OF_JOINS} or name.startswith("spark_jobs.joins")
        else:
            assert name.split(".")[0] in LIBRARIES | STANDARD


def test_one_place_knows_the_compiler() -> None:
    knowing = [path.name for room in (ROOM, GROUND) for path in room.rglob("*.py") if "numba" in imported_modules(path)]
    assert knowing == ["jit.py"]


@pytest.mark.parametrize(
    ("room", "others"),
    [("joins", {"spark_jobs.errors", "spark_jobs.columns", *GROUND_OF_JOINS}), ("columns", {"spark_jobs.errors"})],
)
def test_importing_the_room_loads_no_engine_and_no_room_above(room: str, others: set[str]) -> None:
    command = [sys.executable, "-c", IMPORT_ALL, f"spark_jobs.{room}"]
    modules = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ours = {name for name in modules if name.startswith("spark_jobs.")}
    assert all(name in others or f"{name}.".startswith(f"spark_jobs.{room}.") for name in ours)
    assert {name.split(".")[0] for name in modules}.isdisjoint({"pyspark", "airflow", "psycopg2", "sqlalchemy"})


def test_the_catalogue_loads_neither_compiler_nor_algorithms() -> None:
    program = "import json, sys, spark_jobs.joins.semi_stream, spark_jobs.joins.semi_stream.theory.batch_choice\n"
    program += "import spark_jobs.joins.stream_stream\n"
    program += "print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"numba", "numpy"}.isdisjoint(json.loads(output))


def test_only_the_command_line_imports_experiments() -> None:
    package = ROOM.parent
    others = [path for path in package.rglob("*.py") if "experiments" not in path.relative_to(package).parts]
    importing = [
        path for path in others if any(name.startswith("spark_jobs.experiments") for name in imported_modules(path))
    ]
    assert {path.parent.name for path in importing} <= {"cli"}


def test_the_workers_of_a_stream_load_none_of_the_models_solvers() -> None:
    script = "import sys, spark_jobs.stages.front_task, spark_jobs.stages.back_task; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"scipy.optimize", "scipy.special", "scipy.stats"}.isdisjoint(output.split())
