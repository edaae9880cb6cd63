"""A figure's lines as a CSV file: one row a point."""

from __future__ import annotations

import csv
from pathlib import Path

from spark_jobs.experiments.papers.figure import Reproduction

COLUMNS = (
    "figure",
    "disk",
    "scale",
    "y_axis",
    "series",
    "origin",
    "x_axis",
    "x",
    "measured",
    "low",
    "high",
    "predicted",
    "note",
)


def write_csv(reproduction: Reproduction, file: Path) -> None:
    """Write all points; `low` and `high` end the 95 % confidence interval, empty where there is one run only."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        for panel in reproduction.panels:
            for series in panel.series:
                for point in series.points:
                    writer.writerow(
                        [
                            *(reproduction.figure.id, reproduction.disk, reproduction.scale, panel.y.label),
                            *(series.name, series.origin.value, panel.x.label),
                            *map(_number, (point.x, point.y, point.low, point.high, point.predicted)),
                            point.note,
                        ]
                    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
