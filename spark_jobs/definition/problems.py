"""Reads a pipeline's YAML file, and says what is wrong in it: which key and value, what is allowed, what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from spark_jobs.errors import PipelineDefinitionError

_KINDS = {"string_type": "text", "dict_type": "a mapping", "tuple_type": "a list", "model_type": "a mapping"}
_LONGEST_VALUE = 60
# Python ends recursions that are too deep, and numbers that are too long, with errors that name no place in a file.
_DEEPEST = 50
_MOST_DIGITS = 100


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        key: path of the key in the file, for example `lookups[0].fetch.customer_sk`.
        text: what is wrong, what is allowed, what to do.
    """

    key: str
    text: str


class InconsistentDefinitionError(ValueError):
    """Parts of a definition, each right in itself, do not fit together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{key}: {text}" for key, text in problems))
        self.problems = problems


def suggestion(name: object, allowed: Iterable[str]) -> str:
    """` Did you mean ...?` for the allowed name nearest to this one; empty where none is near."""
    nearest = get_close_matches(str(name), list(allowed), n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def path_of(*parts: str | int) -> str:
    """Path of a key as it is written in messages: path_of("lookups", 0, "on") is `lookups[0].on`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Every problem that pydantic found in the content of a file.

    Args:
        error: the error that validating the content raised.
        model: the model that was validated.
    """
    for entry in error.errors():
        cause = entry.get("ctx", {}).get("error")
        if isinstance(cause, InconsistentDefinitionError):
            yield from cause.problems
        else:
            # `<...>` are the tags of a union's branches, `[key]` marks a mapping's key: no keys of the file.
            keys = [part for part in entry["loc"] if not (isinstance(part, str) and part[:1] in {"<", "["})]
            yield Problem(path_of(*keys), _text(entry, keys, model))


def _text(entry: ErrorDetails, keys: list[str | int], model: type[BaseModel]) -> str:
    kind, value = entry["type"], entry["input"]
    holder, field = _locate(model, keys)
    example = f" For example: {field.examples[0]}" if field is not None and field.examples else ""
    if kind == "missing":
        return f"is missing.{example}"
    if kind == "extra_forbidden":
        allowed = [field.alias or name for name, field in holder.model_fields.items()]
        hint = getattr(holder, "hints", {}).get(str(keys[-1]))
        meant = f" {hint}" if hint else suggestion(keys[-1], allowed)
        return f"is not a key of this mapping.{meant} Allowed: {', '.join(allowed)}."
    if kind == "literal_error" and field is not None:
        nested = _model_in(field.annotation)
        allowed = [
            *dict.fromkeys(_choices(field.annotation)),
            *([f"{{{', '.join(nested.model_fields)}: ...}}"] if nested else []),
        ]
        return f"{shown(value)} is not allowed.{suggestion(value, allowed)} Allowed: {', '.join(allowed)}."
    if kind in _KINDS:
        return f"{shown(value)} is not {_KINDS[kind]}.{example}"
    if kind == "value_error":
        return str(entry["ctx"]["error"])
    told = entry["msg"]
    if kind == "too_short":
        told = f"it holds {entry['ctx']['actual_length']}; allowed are {entry['ctx']['min_length']} or more"
    return f"{shown(value)}: {told}.{example}"


def shown(value: Any) -> str:
    """The value as messages show it: cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _locate(model: type[BaseModel], keys: Sequence[str | int]) -> tuple[type[BaseModel], FieldInfo | None]:
    """The model that holds the last of these keys, and its field; None where the key is not the model's."""
    key, *rest = [each for each in keys if not isinstance(each, int)] or [""]
    field = next((each for name, each in model.model_fields.items() if key in {name, each.alias}), None)
    nested = _model_in(field.annotation) if field else None
    if field and _is_mapping(field.annotation):
        rest = rest[1:]  # Its keys are names, such as the streams'.
    return _locate(nested, rest) if nested and rest else (model, field)


def _is_mapping(annotation: Any) -> bool:
    return get_origin(annotation) is dict or any(_is_mapping(part) for part in get_args(annotation))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _choices(annotation: Any) -> Iterator[str]:
    """The values of the literals in an annotation, as YAML writes them."""
    for part in get_args(annotation):
        if get_args(part):
            yield from _choices(part)
        elif isinstance(part, bool):
            yield str(part).lower()
        elif isinstance(part, str):
            yield part


class Loader(yaml.SafeLoader):
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
            text = f"{shown(node.value)} can't be read as {kind}; correct it, or write it in quotes, as text"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Construct a whole number that is not too long."""
        if len(node.value) > _MOST_DIGITS:
            text = f"the number is {len(node.value)} characters long; allowed are {_MOST_DIGITS}, or text in quotes"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        return int(super().construct_yaml_int(node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping in which no key appears twice."""
        first: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or key.tag == "tag:yaml.org,2002:merge":
                continue
            if name in first:
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping", first[name],
                    f"key {name!r} appears twice; remove one", key.start_mark,
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
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), [*_first])

Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping with text keys.

    Raises:
        PipelineDefinitionError: it can't be read, is no YAML, or is no mapping; the message names file and line.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
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
