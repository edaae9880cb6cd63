"""All figures in the papers' order, and one of our own; measures them, writes their files, and tells what came out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from spark_jobs.errors import FreshetError, WorkloadError
from spark_jobs.experiments.papers import auto_choice
from spark_jobs.experiments.papers.caching import cached_rates, data_sets, front_stage_sensitivity, load_shedding
from spark_jobs.experiments.papers.disks import Disk, disk_of
from spark_jobs.experiments.papers.figure import Figure, Reproduction
from spark_jobs.experiments.papers.figure_setting import FigureSetting, Scale, scale_of
from spark_jobs.experiments.papers.hybrid_join import benchmark_stream, hybrid_join_rates, times
from spark_jobs.experiments.papers.multiple_streams import joining, overflow
from spark_jobs.experiments.papers.presentation import draw, gallery, lines_of, write_csv
from spark_jobs.experiments.papers.punctuations import figures as punctuations
from spark_jobs.experiments.papers.sketches import join_size_error
from spark_jobs.experiments.papers.sort_based import changing_rates, page_accesses, results_over_time
from spark_jobs.settings import Home

FIGURES = (
    benchmark_stream.PAGE_USE,
    hybrid_join_rates.DISK_BUFFER,
    benchmark_stream.LONG_TAIL,
    benchmark_stream.BURSTS,
    times.PROCESSING,
    times.WAITING,
    hybrid_join_rates.BY_SIZE,
    hybrid_join_rates.BY_MEMORY,
    hybrid_join_rates.COSTS,
    cached_rates.BY_MEMORY,
    cached_rates.BY_SIZE,
    cached_rates.NESTED_LOOPS,
    cached_rates.BY_SKEW,
    data_sets.TPCH,
    data_sets.WEATHER,
    data_sets.LOCALITY,
    cached_rates.PROCESSING,
    load_shedding.POSITION,
    load_shedding.SERVICE_RATE,
    front_stage_sensitivity.FRONT_SHARE,
    front_stage_sensitivity.THRESHOLD,
    front_stage_sensitivity.DISK_BUFFER,
    front_stage_sensitivity.ROLE,
    front_stage_sensitivity.GROWTH,
    cached_rates.COSTS,
    join_size_error.SKEWED,
    join_size_error.VERY_SKEWED,
    *punctuations.FIGURES,
    joining.SELECTIVITY,
    joining.IDS,
    overflow.FIGURE,
    joining.PROBES,
    results_over_time.FIGURE,
    page_accesses.FIGURE,
    changing_rates.FIGURE,
    auto_choice.FIGURE,
)

Progress = Callable[[str, float], None]

# R of 100 million tuples of 120 bytes, as a direct file or as a table with its index.
_PAPER_ROOM = {"direct": 14 << 30, "postgres": 24 << 30}


def figures_named(ids: Sequence[str]) -> tuple[Figure, ...]:
    """The figures with these ids, all of them if none is given.

    Raises:
        WorkloadError: there is no figure of such an id.
    """
    by_id = {figure.id: figure for figure in FIGURES}
    for unknown in set(ids) - set(by_id):
        raise WorkloadError(f"There is no figure {unknown!r}: give one of {', '.join(by_id)}.")
    return tuple(by_id[id_] for id_ in ids) if ids else FIGURES


def reproduce(figure: Figure, scale: Scale, disk: Disk, watch: Progress) -> Reproduction:
    """Measure one figure."""
    started = time.perf_counter()
    panels = figure.measure(FigureSetting(scale, disk, watch))
    seconds = time.perf_counter() - started
    return Reproduction(figure, disk.name, scale.name, scale.part(figure.id), tuple(panels), seconds)


def run_papers(
    ids: Sequence[str],
    disk_name: str,
    scale_name: str,
    out: Path,
    home: Home,
    progress_bars: Callable[[], AbstractContextManager[Progress]],
    say: Callable[[str], None],
) -> list[Reproduction]:
    """Measure figures, write a CSV file and a picture of each, and say a line for each published claim.

    A run of all figures also writes a README.md with all pictures and claims.

    Args:
        ids: figures; all if empty.
        disk_name: where R lies.
        scale_name: how large everything is.
        out: folder of the files; at paper scale its sub-folder `paper`, and one named after a disk other than the
            virtual hard disk.
        home: where real relations are made.
        progress_bars: shows progress while a figure is measured.
        say: takes a line.

    Raises:
        WorkloadError: an unknown figure, disk or scale, or too little room for R or memory.
    """
    figures, scale = figures_named(ids), scale_of(scale_name)
    if scale.name == "paper":
        say(_what_paper_scale_takes(figures, disk_name, home))
        out = out / "paper"
    if disk_name != "virtual-hdd":
        out = out / disk_name
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for figure in figures:
        with progress_bars() as progress, disk_of(disk_name, home, progress) as disk:
            try:
                reproduction = reproduce(figure, scale, disk, _bar(progress, figure))
            except FreshetError as error:
                if len(figures) == 1:
                    raise
                say(f"{figure.id}  left out: {error}")
                continue
        write_csv(reproduction, out / f"{figure.id}.csv")
        draw(reproduction, out / f"{figure.id}.png")
        for line in lines_of(reproduction):
            say(line)
        made.append(reproduction)
    if made and not ids:
        (out / "README.md").write_text(gallery(made))
    return made


def _bar(progress: Progress, figure: Figure) -> Progress:
    """One bar for a figure, whichever of its points is measured."""
    name = f"{figure.id} {figure.title}"
    progress(name, 0.0)
    return lambda what, share: progress(name, share)


def _what_paper_scale_takes(figures: Sequence[Figure], disk_name: str, home: Home) -> str:
    minutes = sum(figure.minutes_at_paper_scale for figure in figures)
    memory = max(figure.memory_at_paper_scale for figure in figures)
    room = _PAPER_ROOM.get(disk_name, 0)
    available = psutil.virtual_memory().available
    if memory > available:
        raise WorkloadError(
            f"Paper scale needs {memory / 1e9:.1f} GB of memory here, but {available / 1e9:.1f} GB are free: "
            "take --scale small, or figures of smaller relations (000)."
        )
    home.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home.root).free
    if room > free:
        raise WorkloadError(
            f"Paper scale on {disk_name} needs {room / 1e9:.0f} GB in {home.root}, but {free / 1e9:.0f} GB are free: "
            "take --disk virtual-hdd, which needs none, or another FRESHET_HOME."
        )
    on_disk = f"{room / 1e9:.0f} GB on the disk" if room else "no room on the disk"
    return f"Paper scale: {on_disk}, {memory / 1e9:.1f} GB of memory, roughly {minutes:.0f} minutes on one core."
