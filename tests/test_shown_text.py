"""What others wrote reaches a terminal or a log as text, and as nothing else."""

from __future__ import annotations

import io
import logging

import pytest

from spark_jobs.shown_text import OneLineFormatter, SafeConsole, shown_text

HOSTILE = "\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202eevil\u2066\u200f\x7f\x00\ud800\r\u2028\u061c\u200b\ufeff"


def test_what_would_steer_is_shown_as_what_it_is() -> None:
    assert shown_text("Köln\t1\\") == "Köln\t1\\"
    assert shown_text("a\nb\x1b[0m") == r"a\x0ab\x1b[0m"
    assert shown_text("\u202ex\u2028\ud800") == r"\u202ex\u2028\ud800"


@pytest.mark.parametrize("soft_wrap", [True, False])
def test_a_console_writes_text_and_its_own_colours_alone(soft_wrap: bool) -> None:
    written = io.StringIO()
    console = SafeConsole(file=written, force_terminal=True, width=300, color_system="standard")
    console.print(HOSTILE, style="red", soft_wrap=soft_wrap, markup=False, highlight=False)
    plain = written.getvalue().removeprefix("\x1b[31m").removesuffix("\x1b[0m\n")
    assert plain.isprintable()
    assert r"\x1b[2J" in plain


def test_a_record_of_the_log_begins_one_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s landed", ("a\n2026-01-01 ERROR forged\x1b[2J",), None)
    first, second = OneLineFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert (first, second) == ("INFO a", r"    2026-01-01 ERROR forged\x1b[2J landed")
