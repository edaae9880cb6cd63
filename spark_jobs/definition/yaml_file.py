"""Reads a pipeline's YAML file: a mapping without doubled keys, in which `on` and `off` are words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from spark_jobs.definition.problems import shown
from spark_jobs.errors import PipelineDefinitionError

# Python ends recursions that are too deep, and numbers that are too long, with errors that name no place in a file.
_DEEPEST = 50
_MOST_DIGITS = 100


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core scalars: the older rules read the keys `on` and `off` as booleans, and 1:30 as 90."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node that is in few others."""
        self._depth += 1
        if self._depth > _DEEPEST:
            text = f"lists and mappings are nested deeper than {_DEEPEST} levels; a pipeline needs no more than ten"
            raise yaml.composer.ComposerError(None, None, text, self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; one that its tag, such as !!int or !!timestamp, does not fit is told with its place."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            text = f"{shown(node.value)} can't be read as {kind}; mend it, or write it in quotes, as text"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Construct a whole number that is not too long."""
        if len(node.value) > _MOST_DIGITS:
            text = f"the number is {len(node.value)} characters long; allowed are {_MOST_DIGITS}, or text in quotes"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        return int(super().construct_yaml_int(node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or key.tag == "tag:yaml.org,2002:merge":
                continue
            if name in first:
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping", first[name],
                    f"key {name!r} is there twice; remove one", key.start_mark,
                )  # fmt: skip
            first[name] = key.start_mark
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"0|[-+]?[1-9]\d*", "-+0123456789"),
    ("float", r"[-+]?(?:\.\d+|\d+\.\d*|\d+(?=[eE]))(?:[eE][-+]?\d+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
    ("null", r"~|null|", ["~", "n", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), [*_first])

_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping with text keys.

    Raises:
        PipelineDefinitionError: it can't be read, is no YAML, or is no mapping; the message names file and line.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise PipelineDefinitionError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise PipelineDefinitionError(f"{path}: can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise PipelineDefinitionError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8.") from None
    except yaml.MarkedYAMLError as error:
        raise PipelineDefinitionError(f"{path}, {_describe(error)}") from None
    except yaml.YAMLError as error:
        raise PipelineDefinitionError(f"{path}: is not YAML: {error}") from None
    if not isinstance(content, dict):
        held = "is empty" if content is None else f"holds a {type(content).__name__}, not a mapping"
        raise PipelineDefinitionError(f"{path}: {held}. A pipeline is a mapping that starts with `name: ...`.")
    return content


def _describe(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    first = error.context_mark
    context = f" ({error.context} that starts in line {first.line + 1})" if error.context and first else ""
    return f"{place}{error.problem}{context}."
