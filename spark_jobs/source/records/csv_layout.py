"""How a source writes CSV, and how a single line of it is cut into fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from spark_jobs.source.records.decoded import MalformedRecordError


class Field(NamedTuple):
    """A field of a line: its text without quotes, and whether it stood in quotes."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class CsvLayout:
    """A source's options for CSV.

    Attributes:
        header: whether a file's first line names its columns.
        sep: the character between fields.
        quote: the character around a field that holds one of these.
        escape: the character that makes a quote, or itself, part of a quoted field; by default the quote.
        null: the text that stands for null, beside nothing at all, in fields without quotes.
    """

    header: bool = False
    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> CsvLayout:
        """The layout that a pipeline's `source.options` describe."""
        quote = options.get("quote", '"')
        return cls(
            header=options.get("header") == "true",
            sep=options.get("sep", ","),
            quote=quote,
            escape=options.get("escape", quote),
            null=options.get("nullValue", ""),
        )

    @property
    def doubled(self) -> bool:
        """Whether a quote in a quoted field is written twice."""
        return self.escape == self.quote

    @cached_property
    def field_pattern(self) -> str:
        """What a field looks like, for RE2 and Python alike; its content in group 1 if in quotes, else in group 2."""
        quote, sep, escape = (re.escape(each) for each in (self.quote, self.sep, self.escape))
        inside = f"[^{quote}]|{quote}{quote}" if self.doubled else rf"[^{quote}{escape}]|{escape}(?s:.)"
        return f"(?:{quote}((?:{inside})*){quote}|([^{quote}{sep}]*))"

    @cached_property
    def line_pattern(self) -> str:
        """What a line looks like, for RE2."""
        fields = self.field_pattern.replace("((?:", "(?:(?:").replace("|([", "|(?:[")
        return f"^{fields}(?:{re.escape(self.sep)}{fields})*$"

    def fields(self, line: str) -> Sequence[Field]:
        """Cut a line.

        Raises:
            MalformedRecordError: a quote stands where none may.
        """
        found = []
        position = 0
        while True:
            match = self._field.match(line, position)
            assert match is not None  # it matches nothing at all, too
            quoted = match[1] is not None
            found.append(Field(self._unescaped(match[1]) if quoted else match[2], quoted))
            position = match.end()
            if position == len(line):
                return found
            if line[position] != self.sep:
                raise MalformedRecordError(
                    f"malformed: {self.quote} in field {len(found)} that is not in quotes, or does not end them"
                )
            position += 1

    @cached_property
    def _field(self) -> re.Pattern[str]:
        return re.compile(self.field_pattern)

    def _unescaped(self, text: str) -> str:
        if self.escape not in text:
            return text
        if self.doubled:
            return text.replace(self.quote * 2, self.quote)
        return re.sub(f"{re.escape(self.escape)}([{re.escape(self.quote + self.escape)}])", r"\1", text)
