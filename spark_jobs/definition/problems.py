"""Says what is wrong in a pipeline's YAML file: which key, which value, what is allowed, what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_KINDS = {"string_type": "text", "dict_type": "a mapping", "tuple_type": "a list", "model_type": "a mapping"}
_LONGEST_VALUE = 60


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
        return f"is not a key of this mapping.{suggestion(keys[-1], allowed)} Allowed: {', '.join(allowed)}."
    if kind == "literal_error" and field is not None:
        nested = _model_in(field.annotation)
        allowed = [*_choices(field.annotation), *([f"{{{', '.join(nested.model_fields)}: ...}}"] if nested else [])]
        return f"{shown(value)} is not allowed.{suggestion(value, allowed)} Allowed: {', '.join(allowed)}."
    if kind in _KINDS:
        return f"{shown(value)} is not {_KINDS[kind]}.{example}"
    if kind == "value_error":
        return str(entry["ctx"]["error"])
    return f"{shown(value)}: {entry['msg']}.{example}"


def shown(value: Any) -> str:
    """The value as messages show it: cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _locate(model: type[BaseModel], keys: list[str | int]) -> tuple[type[BaseModel], FieldInfo | None]:
    """The model that holds the last of these keys, and its field; None where the key is not the model's."""
    field = None
    for position, key in enumerate(keys):
        if isinstance(key, int):
            continue
        field = next((each for name, each in model.model_fields.items() if key in {name, each.alias}), None)
        nested = _model_in(field.annotation) if field else None
        if position == len(keys) - 1 or nested is None:
            break
        model = nested
    return model, field


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
