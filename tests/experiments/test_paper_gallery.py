"""The pages from which the family is learned: their links lead somewhere, and no figure is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import spark_jobs.joins
from spark_jobs.experiments.papers.reproduce import FIGURES

JOINS = Path(spark_jobs.joins.__file__).parent
RELATIVE_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", ["README.md", "figures/README.md"])
def test_every_relative_link_leads_somewhere(page: str) -> None:
    file = JOINS / page
    links = RELATIVE_LINK.findall(file.read_text())
    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_the_gallery_shows_every_figure_with_its_table() -> None:
    gallery = (JOINS / "figures" / "README.md").read_text()
    for figure in FIGURES:
        assert f"![{figure.id}]({figure.id}.png)" in gallery
        assert (JOINS / "figures" / f"{figure.id}.csv").exists()
