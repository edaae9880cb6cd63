"""All keys of a pipeline's YAML as a page of documentation, made from the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from spark_jobs.authoring.yaml_schema import pipeline_schema
from spark_jobs.byte_sizes import format_bytes
from spark_jobs.definition.fates import FATES, Retry

_HEAD = """\
# Reference: the keys of a pipeline

Each file in `dags/pipelines` is a pipeline. `freshet check PIPELINE` tells what is wrong with one, and editors complete
and check it by the JSON Schema that its first line names. This page is made from the models: `freshet reference`.
Its last part is what may become of a tuple: the column `fate` of `freshet.held_tuple` and of `freshet.batch_fate`.
"""
_RETRIES: dict[Retry | None, str] = {
    "each run": "each reprocessing run that finds it due",
    "late join": "reprocessing, once a late tuple can be joined",
    "its row": "the batch that makes its row",
    None: "",
}
_REF = "#/$defs/"
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))

Schema = dict[str, Any]


def reference() -> str:
    """The page, in Markdown: a table for each part of a definition, in the order in which they are met."""
    schema = pipeline_schema()
    parts: Schema = schema["$defs"]
    named: dict[str, list[str]] = {}
    pending = [schema]
    while pending:
        for key, value in pending.pop(0)["properties"].items():
            for part in _parts_in(value):
                if part not in named:
                    pending.append(parts[part])
                if key not in named.setdefault(part, []):
                    named[part].append(key)
    sections = [_HEAD, _section("The file", schema, parts)]
    sections += [_section(", ".join(f"`{key}`" for key in keys), parts[part], parts) for part, keys in named.items()]
    return "\n".join([*sections, _fates()])


def _fates() -> str:
    rows = [
        f"| `{fate}` | {_escaped(fate.sentence)} | {fate.place or ''} | {_RETRIES[fate.retried]} "
        f"| {'yes' if fate.requeue else ''} |"
        for fate in FATES.values()
    ]
    table = ["| fate | what happened | held as | tried again by | `freshet requeue` |", "|---|---|---|---|---|", *rows]
    return "\n".join(["## Fates", "", "What may become of a tuple.", "", *table, ""])


def _parts_in(value: Any) -> Iterator[str]:
    """Names of the parts that the schema of a key refers to."""
    if isinstance(value, dict):
        if isinstance(ref := value.get("$ref"), str):
            yield ref.removeprefix(_REF)
        for each in value.values():
            yield from _parts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts_in(each)


def _section(heading: str, part: Schema, parts: Schema) -> str:
    required = part.get("required", [])
    rows = [
        f"| `{key}` | {_about(value, parts)} | {'**required**' if key in required else _default(value)} "
        f"| {_code(value['examples'][0])} |"
        for key, value in part["properties"].items()
    ]
    table = ["| key | what it says | by default | for example |", "|---|---|---|---|", *rows]
    return "\n".join([f"## {heading}", "", part["description"], "", *table, ""])


def _about(value: Schema, parts: Schema) -> str:
    """What is said of a key, or of the part that it is."""
    of_parts = [parts[part]["description"] for part in _parts_in(value)]
    return _escaped(str(value.get("description") or next(iter(of_parts), "")))


def _default(value: Schema) -> str:
    default, pattern = value.get("default"), value.get("pattern", "")
    if default in (None, [], {}):
        return ""
    if isinstance(default, str) and re.fullmatch(r"P[\dTDHMS.]+", default):
        return _code(_duration(TypeAdapter(timedelta).validate_python(default)))
    if isinstance(default, int) and "bB" in pattern:
        return _code(format_bytes(default))
    # A part of its own has defaults of its own.
    return "" if isinstance(default, dict) else _code(default if isinstance(default, str) else json.dumps(default))


def _duration(duration: timedelta) -> str:
    """A whole number of the largest unit, as the files have it."""
    seconds = int(duration.total_seconds())
    unit, length = next((unit, length) for unit, length in _UNITS if seconds % length == 0)
    return f"{seconds // length}{unit}"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
