"""`freshet bench papers` from outside: what it writes, and what it says when asked for what there is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.experiments.papers.reproduce import FIGURES


def test_it_writes_a_picture_and_a_table_and_says_a_line_for_each_claim(tmp_path: Path) -> None:
    options = ["--figure", "000-9", "--figure", "000-8", "--scale", "tiny", "--out", str(tmp_path / "figures")]
    result = CliRunner().invoke(app, ["bench", "papers", *options])
    assert result.exit_code == 0, result.output
    written = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert written == ["000-8.csv", "000-8.png", "000-9.csv", "000-9.png"]
    lines = [line for line in result.stdout.splitlines() if line.startswith("000-")]
    assert [line.split()[0] for line in lines] == ["000-9", "000-8"]
    assert "published 80 %, measured 87 %" in lines[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure", "000-12"], "no figure '000-12': give one of 000-3, 000-6"),
        (["--scale", "large"], "no scale 'large': give one of tiny, small, paper"),
        (["--disk", "floppy", "--figure", "000-9"], "no disk 'floppy': give one of virtual-hdd, virtual-ssd"),
    ],
)
def test_it_says_what_there_is_instead_of_an_unknown(options: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "papers", *options, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_every_figure_of_the_papers_is_there() -> None:
    hybrid_join = [f"000-{number}" for number in ("3", "6", "8", "9", "10a", "10b", "10c", "10d", "11")]
    caching = [f"003-{number}" for number in (*(f"5{letter}" for letter in "abcdefg"), 6, 7, 8)]
    sensitivity = [f"003-9{letter}" for letter in "abcdef"]
    sketches = ["001-sketches-5a", "001-sketches-5b"]
    p_join = [f"001-pjoin-{number}" for number in range(5, 15)]
    multiple_streams = ["002-5", "002-6", "002-7", "002-probes"]
    sort_based = ["004-2", "004-pages", "004-3"]
    families = [*hybrid_join, *caching, *sensitivity, *sketches, *p_join, *multiple_streams, *sort_based]
    assert [figure.id for figure in FIGURES] == [*families, "auto"]
    assert all(figure.claims for figure in FIGURES)
