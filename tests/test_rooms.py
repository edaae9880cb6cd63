"""The house: which room may import which. A module imports its own room and those further down, never upwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import spark_jobs

HOUSE = Path(spark_jobs.__file__).parent
ROOMS = [
    "cli",
    "experiments",
    "stream_load",
    "reprocess_shed",
    "rebuild_cache",
    "waiting_work",
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
    "relation",
    "definition",
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
}


def imports(path: Path) -> Iterator[str]:
    """The rooms that a module imports, wherever in it; what only its annotations need is left out."""
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
        yield from (name.split(".")[1] for name in names if name.startswith("spark_jobs."))
        pending += ast.iter_child_nodes(node)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the house, with its room."""
    for path in sorted(HOUSE.rglob("*.py")):
        room = path.relative_to(HOUSE).parts[0].removesuffix(".py")
        if room != "__init__":
            yield room, path


def test_every_room_has_its_place() -> None:
    assert {room for room, _ in modules()} == {*ROOMS, *COMMON}


def test_no_room_imports_one_above_it() -> None:
    upwards = [
        f"{path.relative_to(HOUSE)} imports {imported}"
        for room, path in modules()
        for imported in imports(path)
        if imported != room and imported not in COMMON and (room in COMMON or ROOMS.index(imported) < ROOMS.index(room))
    ]
    assert upwards == []
