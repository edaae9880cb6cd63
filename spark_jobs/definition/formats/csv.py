"""CSV: a record is a line of a file, which options say how to read. Their names are those of Spark's reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spark_jobs.definition.formats.base import FormatFacts
from spark_jobs.definition.problems import Problem, path_of

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source

# Options that are one character, and what they must differ from, with what that is by default.
_CHARACTERS = {"sep": {"quote": '"'}, "quote": {"sep": ","}, "escape": {"sep": ","}}


class _Csv(FormatFacts):
    name = held_as = "csv"
    borne_by = frozenset({"files"})
    options = ("header", "sep", "quote", "escape", "nullValue")

    def problems(self, path: str, source: Source) -> Iterator[Problem]:
        for name, kind in source.columns.items():
            if kind.name == "binary":
                yield Problem(
                    path_of(path, "schema"), f"column {name!r} is of type binary, which csv has not; use string."
                )
        for option, value in source.options.items():
            key = path_of(path, "options", option)
            if option == "header" and value not in {"true", "false"}:
                yield Problem(key, f"{value!r} is not allowed. Allowed: true, false.")
            elif option in _CHARACTERS and not (len(value) == 1 and value.isascii() and value not in "\r\n\0"):
                yield Problem(
                    key, f"{value!r} is not one ASCII character. Allowed: one, which is no line break and no NUL."
                )
            elif option in _CHARACTERS and any(
                source.options.get(other, default) == value for other, default in _CHARACTERS[option].items()
            ):
                others = " and ".join(_CHARACTERS[option])
                yield Problem(key, f"{value!r} has another meaning already; choose a character that {others} is not.")
            elif option == "nullValue" and any(mark in value for mark in "\r\n"):
                yield Problem(key, f"{value!r} is not text on a single line.")


CSV = _Csv()
