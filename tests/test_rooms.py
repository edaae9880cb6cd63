"""The house: which room may import which. A module imports its own room and those further down, never upwards."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import spark_jobs
from spark_jobs.definition import fates
from spark_jobs.definition.fates import FATES, PLACES

HOUSE = Path(spark_jobs.__file__).parent
ROOMS = [
    "cli",
    "experiments",
    "local",
    "workload",
    "authoring",
    "stream_load",
    "reprocess_shed",
    "rebuild_cache",
    "waiting_work",
    "monitoring",
    "validation",
    "proof",
    "reprocessing",
    "launch",
    "driver",
    "stages",
    "source",
    "loading",
    "ledger",
    "lookup",
    "control",
    "warehouse",
    "join_state",
    "definition",
    "sketches",
    "joins",
    "columns",
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


def test_production_does_not_import_the_demo() -> None:
    """Rooms that lie below `local` can't, so what is left are Airflow's plugins, DAGs and the migrations."""
    folders = [HOUSE.parent / folder for folder in ("plugins", "dags", "warehouse_schema")]
    demo = {
        f"{path.relative_to(HOUSE.parent)} imports {imported}"
        for folder in folders
        for path in folder.rglob("*.py")
        for imported in imports(path)
        if room_of(imported) in ROOMS[: ROOMS.index("workload") + 1]
    }
    assert demo == set()


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


# Generators and the demo play an operator: what they say to people is no knowledge of the ledger.
APART = {"experiments", "joins", "sketches", "local", "workload", "vendor", "versions"}


def texts() -> dict[str, str]:
    """The product's own files, plugins and their scripts included."""
    root = HOUSE.parent
    kinds = [("spark_jobs", "*.py"), ("plugins", "*.py"), ("plugins", "*.js"), ("dags", "*.py")]
    paths = [path for folder, kind in kinds for path in (root / folder).rglob(kind) if not APART & set(path.parts)]
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def test_places_of_held_tuples_are_named_in_one_table() -> None:
    """And in one of the page's scripts, which can't import it."""
    naming = {name for name, text in texts().items() if re.search(r"""['"](shed|unmatched|rejected)['"]""", text)}
    script = "plugins/freshet_airflow/freshness_page/static/held/places.js"
    assert naming == {"spark_jobs/definition/fates.py", script}
    assert f"= {json.dumps(PLACES)};" in texts()[script]


def test_no_words_of_a_reason_are_read_back() -> None:
    """What a reason says is for people; what has become of a tuple is its fate."""
    reading = re.compile(r"(starts_with|left|regexp_matches)\((\w+\.)?reason\b|reason (LIKE|~)|reasons?\.startswith")
    assert {name: found for name, text in texts().items() if (found := reading.findall(text))} == {}


# How many modules name a fate besides the table. One that is treated as its place and share say is named by what gives
# it to tuples, and by nothing else; more name those with rules of their own. These go down, or stay.
MOST_NAMING = {
    "EXPIRED": 7, "JOINED": 8, "WAITING": 11, "REJECTED": 8, "UNMATCHED": 6, "AFTER_LAST": 6, "LATE": 6, "DUPLICATE": 4,
    "SHED": 3, "MALFORMED": 3, "UNIDENTIFIED": 3, "REFUSED": 3, "CAN_NOT_MATCH": 2, "TOO_MANY": 2, "SECOND_PART": 2,
    "EXPIRED_EARLY": 2, "POISON": 2, "JOINED_LATE": 2, "PURGED": 2, "PUNCTUATION": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, each in vars(fates).items() if each in FATES.values()])
def test_a_new_fate_is_a_row_of_the_table_and_who_gives_it_to_tuples(name: str) -> None:
    """One that says nothing else costs two files: the others ask the table."""
    naming = sorted(module for module, names in imported_fates().items() if name in names)
    assert 1 <= len(naming) <= MOST_NAMING.get(name, 1), naming


@cache
def imported_fates() -> dict[str, set[str]]:
    """What each module imports of the table."""
    found: dict[str, set[str]] = {}
    for path in HOUSE.rglob("*.py"):
        if not APART & set(path.parts) and fates.__name__ in (text := path.read_text()):
            nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
            names = {each.name for node in nodes if node.module == fates.__name__ for each in node.names}
            found[str(path.relative_to(HOUSE))] = names
    return found


# How far one idea is spread, and how wide rooms and bricks are. Lower a number when you have lowered what it counts.
MOST = {
    "files that name kafka": 18,
    "files that name avro": 11,
    "branches by a pipeline's shape": 10,
    "event ids hashed anew in stages and loading": 3,
    "names that others import of definition": 86,
    "names that others import of ledger": 70,
    "names that others import of columns": 49,
    "names that others import of control": 42,
    "names that others import of loading": 42,
    "names that others import of joins": 31,
    "names that others import of source": 26,
    "classes of more than 300 lines": 6,
    "functions of more than 60 lines": 1,
}
BY_SHAPE = re.compile(r"isinstance\([\w.]*shape, |match [\w.]*shape:|streams is (?:not )?None|\.accumulates")
# A new room shows others no more than this.
MOST_NAMES = 25


def test_what_is_spread_or_wide_only_goes_down() -> None:
    grown = {name: count for name, count in counts().items() if count > MOST.get(name, MOST_NAMES)}
    assert grown == {}, f"allowed are {[(name, MOST.get(name, MOST_NAMES)) for name in grown]}"


def counts() -> dict[str, int]:
    """Each count of `MOST`, as it is now, and those of all other rooms' faces."""
    product = {name: text for name, text in texts().items() if not re.search("/(tests|versions)/", name)}
    loads = [text for name, text in product.items() if re.match("spark_jobs/(stages|loading)/", name)]
    long, wide = lengths()
    return {
        "files that name kafka": sum("kafka" in text.lower() for text in product.values()),
        "files that name avro": sum("avro" in text.lower() for text in product.values()),
        "branches by a pipeline's shape": sum(len(BY_SHAPE.findall(text)) for text in product.values()),
        "event ids hashed anew in stages and loading": sum(
            len(re.findall(r"event_hashes\(|identity_hashes\(", text)) for text in loads
        ),
        **{f"names that others import of {room}": len(names) for room, names in faces().items()},
        "classes of more than 300 lines": len(wide),
        "functions of more than 60 lines": len(long),
    }


def sources() -> Iterator[tuple[str, ast.Module]]:
    """The modules of the product, plugins, DAGs and migrations, whatever may import all apart, by path."""
    for folder in ("spark_jobs", "plugins", "warehouse_schema", "dags"):
        for path in (HOUSE.parent / folder).rglob("*.py"):
            if "experiments" not in path.parts:
                yield path.relative_to(HOUSE.parent).as_posix(), ast.parse(path.read_text())


def faces() -> dict[str, set[tuple[str, str]]]:
    """What other rooms, plugins and DAGs import of each room."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path, tree in sources():
        here = Path(path).with_suffix("").parts[1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_jobs."):
                room = room_of(node.module or "")
                if room != here and room not in COMMON:
                    found.setdefault(room, set()).update((node.module or "", each.name) for each in node.names)
    return found


def lengths() -> tuple[list[str], list[str]]:
    """The functions of more than 60 lines, and the classes of more than 300."""
    long, wide = [], []
    for path, tree in sources():
        for node in ast.walk(tree):
            lines = getattr(node, "end_lineno", 0) - getattr(node, "lineno", 0)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines > 60 and "/versions/" not in path:
                long.append(f"{path}: {node.name}")
            elif isinstance(node, ast.ClassDef) and lines > 300:
                wide.append(f"{path}: {node.name}")
    return long, wide
