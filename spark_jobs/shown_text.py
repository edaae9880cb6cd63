"""Text that did not come from us, as a terminal or a log may show it: without what would steer or forge it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

# Control characters but the tab, ends of lines, halves of characters, what turns the direction of writing or is unseen.
_STEERING = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
_HIDDEN = re.compile(f"[{_STEERING}\n]")
_HIDDEN_IN_LINES = re.compile(f"[{_STEERING}]")


def shown_text(text: str) -> str:
    r"""The text on one line, with each character that would not stand for itself as `\xNN` or `\uNNNN`. O(n)."""
    return _HIDDEN.sub(_code, text)


def shown_lines(text: str) -> str:
    """As `shown_text`, of a text whose ends of lines stay: one of ours that quotes others."""
    return _HIDDEN_IN_LINES.sub(_code, text)


def shown_line(message: str) -> str:
    """A message of ours that quotes others, and may have several lines, on one: it begins no line but its own."""
    return shown_text(" ".join(filter(None, map(str.strip, message.splitlines()))))


class SafeConsole(Console):
    """A console to whose terminal nothing gets through but text, and rich's own colours and movements.

    Ends of lines do: who prints a value that may hold one prints `shown_text` of it.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=shown_lines(segment.text)) for segment in buffer
        )


class OneLineFormatter(logging.Formatter):
    """Begins a line of the log for each record and for nothing else: what follows an end of line is indented."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter`, with all that steers a terminal shown."""
        return shown_lines(super().format(record)).replace("\n", "\n    ")


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
