"""Every figure of the papers, at a scale of some seconds: who beats whom comes out as published."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from spark_jobs.experiments.papers.disks import disk_of
from spark_jobs.experiments.papers.figure import Figure
from spark_jobs.experiments.papers.figure_setting import scale_of
from spark_jobs.experiments.papers.presentation import draw, lines_of, write_csv
from spark_jobs.experiments.papers.reproduce import FIGURES, reproduce
from spark_jobs.settings import Home

# Some claims are about small differences, or about the largest disk buffers: these figures need more room.
NEED_SMALL_SCALE = ("000-6", "000-11", "003-5b")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_the_figure_comes_out_as_published(figure: Figure, tmp_path: Path) -> None:
    shares: list[float] = []
    scale = scale_of("small" if figure.id in NEED_SMALL_SCALE else "tiny")
    with disk_of("virtual-hdd", Home(tmp_path), lambda what, share: None) as disk:
        reproduction = reproduce(figure, scale, disk, lambda what, share: shares.append(share))
    for claim, outcome in reproduction.outcomes:
        assert outcome.as_published or claim.contradicted, "\n".join(lines_of(reproduction))
        assert outcome.reached is not False or claim.cause, f"{claim.text}: {outcome.measured}, and no cause is given"
    assert all(0 <= share <= 1 for share in shares)

    write_csv(reproduction, tmp_path / "figure.csv")
    with (tmp_path / "figure.csv").open() as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == sum(len(series.points) for panel in reproduction.panels for series in panel.series)
    assert all(float(row["measured"]) >= 0 for row in rows)
    draw(reproduction, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
