"""JSON Schema of a pipeline's YAML: by it editors complete and check a definition while it is written."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from spark_jobs.definition import PipelineDefinition

SCHEMA_FILE = "pipeline.schema.json"
FIRST_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""First line of a definition that lies beside its schema."""


def pipeline_schema() -> dict[str, Any]:
    """The schema, made from the models: each key with what its model says of it, and an example.

    It is weaker than loading the file: whether parts fit together is for `freshet check`.
    """
    schema = PipelineDefinition.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    models = {model.__name__: model for model in _models(PipelineDefinition)}
    for name, part in {**schema["$defs"], PipelineDefinition.__name__: schema}.items():
        if name in models:
            _describe(part, models[name])
    # What makes a shape is there, or left out: null would only blur what is wrong in it.
    for key in {key for shape in schema["oneOf"] for key in shape["required"]}:
        [written, _] = schema["properties"][key].pop("anyOf")
        schema["properties"][key] = written | schema["properties"][key]
        del schema["properties"][key]["default"]
    return schema


def write_schema(folder: Path) -> None:
    """Write the schema into a folder of definitions."""
    (folder / SCHEMA_FILE).write_text(json.dumps(pipeline_schema(), indent=1) + "\n", encoding="utf-8")


def _models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """A model, and those of its fields, theirs, and so on."""
    found = {model}
    pending: list[Any] = [field.annotation for field in model.model_fields.values()]
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found |= _models(annotation)
        else:
            pending += get_args(annotation)
    return found


def _describe(part: dict[str, Any], model: type[BaseModel]) -> None:
    text = inspect.getdoc(model) or ""
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    part["description"] = _one_line(summary)
    told = dict(re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE))
    by_name = {name: _one_line(said) for names, said in told.items() for name in names.split(", ")}
    for name, field in model.model_fields.items():
        key = part["properties"].get(field.alias or name)
        if key is not None:
            key.pop("title", None)
            if name in by_name:
                key["description"] = by_name[name]


def _one_line(text: str) -> str:
    said = " ".join(text.split())
    return said[:1].upper() + said[1:]
