"""Reads how pipelines of several streams were written until version 0.2: one key `correlate` for all of them.

Such a file, and such a definition in the warehouse, is the same pipeline with the same state. To be removed with the
version after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from spark_jobs.definition.problems import Loader

_NAMES = {"within": "window", "lateness": "allowed_lateness", "idle_after": "idle_timeout"}
HINTS = {
    **{former: f"It is called `{present}` now." for former, present in _NAMES.items()},
    "emit": "Write `accumulate` in place of `join` for what was `emit: accumulate`; leave out `emit: complete`.",
}
"""What is told of the keys of `correlate` that `join` has not."""
HINT = "`correlate` is called `join` now, or `accumulate`: write one of these, and remove it."
# What was read with `emit: accumulate`, and meant nothing.
_IDLE = {"lateness", "idle_after", "algorithm", "memory", "keep_versions"}


def in_present_spelling(content: Any) -> Any:
    """The content of a definition with `join` or `accumulate` in place of `correlate`; any other as it is."""
    if not isinstance(content, dict) or "correlate" not in content:
        return content
    correlate = content["correlate"]
    if not isinstance(correlate, dict | None) or correlate == {} or "join" in content or "accumulate" in content:
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
    whole = in_present_spelling(content)
    present = {key: part for key, part in whole.items() if key not in content}
    if not present:
        return None
    lines = yaml.dump(present, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)
    told = f"`correlate` is called `{next(iter(present))}` now, and is read until the next version."
    besides = " Remove `source`, too." if content.keys() - whole.keys() > {"correlate"} else ""
    return f"{told}{besides} Write in its place:\n\n{lines}"


class _Dumper(yaml.SafeDumper):
    """Puts those texts in quotes that would else be read as something else."""

    yaml_implicit_resolvers = Loader.yaml_implicit_resolvers


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
    doubled = {former for former, present in _NAMES.items() if present in said}
    return {part: {key if key in doubled else _NAMES.get(key, key): value for key, value in said.items()}}


def _meant_nothing(key: str, value: Any) -> bool:
    """Whether a key besides `emit: accumulate` meant nothing, and was no mistake."""
    if key == "expired":
        return "emit" not in (value.values() if isinstance(value, dict) else [value])
    unsaid: dict[str, Any] = {"match": "equal", "within": None, "punctuations": {}, "most_facts": None}
    return key in _IDLE or (key in unsaid and unsaid[key] == value)
