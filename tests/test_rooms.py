"""The house: which room may import which. A module imports its own room and those further down, never upwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import spark_jobs

HOUSE = Path(spark_jobs.__file__).parent
ROOMS = [
    "cli",
    "experiments",
    "authoring",
    "stream_load",
    "reprocess_shed",
    "rebuild_cache",
    "waiting_work",
    "monitoring",
    "validation",
    "local",
    "workload",
    "proof",
    "reprocessing",
    "driver",
    "stages",
    "hot_set",
    "source",
    "loading",
    "ledger",
    "warehouse",
    "join_state",
    "relation",
    "definition",
    "sketches",
    "joins",
]
# Single files that every room may use, and that use none but each other.
COMMON = {
    "errors",
    "task_errors",
    "settings",
    "byte_sizes",
    "durations",
    "timestamps",
    "connection_liveness",
    "job_main",
    "durable_files",
    "private_files",
    "shown_text",
    "secret_text",
    "optional_imports",
}


def imports(path: Path) -> Iterator[str]:
    """The modules, or names in them, that a module imports anywhere but for annotations alone."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.startswith("spark_jobs."))
        pending += ast.iter_child_nodes(node)


def modules() -> dict[str, Path]:
    """Every module of the house."""
    paths = {path: path.relative_to(HOUSE.parent).with_suffix("").parts for path in HOUSE.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in modules() if "." in module} == {*ROOMS, *COMMON}


def test_no_room_imports_one_above_it() -> None:
    upwards = [
        f"{module} imports {imported}"
        for module, path in modules().items()
        if "." in module
        for imported in imports(path)
        if room_of(imported) != room_of(module)
        and room_of(imported) not in COMMON
        and (room_of(module) in COMMON or ROOMS.index(room_of(imported)) < ROOMS.index(room_of(module)))
    ]
    assert upwards == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """With a module Python imports the packages that it lies in."""
    house = modules()
    graph: dict[str, set[str]] = {module: set() for module in house}
    for module, path in house.items():
        for imported in imports(path):
            parts = imported.split(".")
            prefixes = {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
            graph[module] |= {name for name in prefixes & house.keys() if not f"{module}.".startswith(f"{name}.")}
    TopologicalSorter(graph).prepare()  # raises CycleError
