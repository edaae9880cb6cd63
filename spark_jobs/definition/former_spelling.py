"""Reads how pipelines of several streams were written until version 0.2: one key `correlate` for all of them.

Such a file, and such a definition in the warehouse, is the same pipeline with the same state. To be removed with the
version after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

_NAMES = {"within": "window", "lateness": "allowed_lateness", "idle_after": "idle_timeout"}
# What was read with `emit: accumulate`, and meant nothing.
_IDLE = {"lateness", "idle_after", "algorithm", "memory", "keep_versions"}


def in_present_spelling(content: Any) -> Any:
    """The content of a definition with `join` or `accumulate` in place of `correlate`; any other as it is."""
    if not isinstance(content, dict) or "correlate" not in content:
        return content
    correlate = content["correlate"]
    if not isinstance(correlate, dict | None) or "join" in content or "accumulate" in content:
        return content  # `correlate` is an unknown key then.
    kept = {key: value for key, value in content.items() if key != "correlate"}
    if correlate is None:
        return kept
    source = kept.get("source")
    if isinstance(source, dict) and source.get("path") == "/" and "streams" in kept:
        del kept["source"]  # The warehouse had there what joined tuples are like.
    return kept | _present(correlate)


def note_of_former_spelling(content: Mapping[str, Any]) -> str | None:
    """What to write in place of `correlate`, ready to be pasted; None where nothing is in the former spelling."""
    if not isinstance(content.get("correlate"), dict):
        return None
    present = _present(content["correlate"])
    lines = yaml.safe_dump(present, sort_keys=False, default_flow_style=None, allow_unicode=True)
    lines = lines.replace("'on': ", "on: ", 1)  # Only older rules of YAML take that for a boolean.
    told = f"`correlate` is called `{next(iter(present))}` now, and is read until the next version. Write in its place:"
    return f"{told}\n\n{lines}"


def _present(correlate: Mapping[str, Any]) -> dict[str, Any]:
    """`join`, or `accumulate`, with what `correlate` said; what is wrong in it stays so."""
    said = {key: value for key, value in correlate.items() if key != "emit"}
    emit = correlate.get("emit", "complete")
    if emit == "accumulate":
        said = {key: value for key, value in said.items() if not _meant_nothing(key, value)}
    elif not said.get("required"):
        said.pop("required", None)
    if emit not in ("complete", "accumulate"):
        said["emit"] = emit
    part = "accumulate" if emit == "accumulate" else "join"
    return {part: {_NAMES.get(key, key): value for key, value in said.items()}}


def _meant_nothing(key: str, value: Any) -> bool:
    """Whether a key besides `emit: accumulate` meant nothing, and was no mistake."""
    if key == "expired":
        return "emit" not in (value.values() if isinstance(value, dict) else [value])
    unsaid: dict[str, Any] = {"match": "equal", "within": None, "punctuations": {}, "most_facts": None}
    return key in _IDLE or (key in unsaid and unsaid[key] == value)
