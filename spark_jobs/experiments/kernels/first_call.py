"""How soon a fresh worker process has joined its first tuple, with the kernels compiled and cached before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure

TARGET = 1.0

# From the first import to the end of the first step; the interpreter's own start is not the joins' work.
_FIRST_CALL = """
import sys, time
started = time.perf_counter()
import numpy as np
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Page
class OnePage:
    page_count, page_bytes, tuple_bytes = 1, 64, 8
    def read_page(self, number):
        return Page(np.array([7]), np.array([7]), 8)
    def gather(self, parts):
        return np.concatenate([rows[positions] for rows, positions in parts])
join = create("cached_hybrid_join", OnePage(), 1 << 20)
join.push(np.array([7, 8]), np.array([0, 0]), np.array([0, 1]))
for _ in join.finish():
    pass
print(time.perf_counter() - started, "numba.np.arraymath" in sys.modules)
"""


class FirstCall(NamedTuple):
    """What a fresh process did.

    Attributes:
        seconds: from the first import to the end of cached_hybrid_join's first step.
        made_compiler_ready: whether it loaded what only a compilation needs, which takes as long as all else.
    """

    seconds: float
    made_compiler_ready: bool


def measure(repeats: int) -> list[MeasuredFigure]:
    """Seconds to the first joined tuple, in processes of their own."""
    times = [call.seconds for call in first_calls(repeats)]
    return [MeasuredFigure.of("first call of a fresh worker process", times, "s", TARGET)]


def first_calls(repeats: int) -> list[FirstCall]:
    """What fresh processes do, after one that has cached what they load."""
    with tempfile.TemporaryDirectory() as folder:
        # As an installation has them after its first run: the libraries' bytecode and the kernels' code on disk.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(Path(folder))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _first_call(environment)
        return [_first_call(environment) for _ in range(repeats)]


def _first_call(environment: dict[str, str]) -> FirstCall:
    command = [sys.executable, "-c", _FIRST_CALL]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    return FirstCall(float(told[0]), told[1] == "True")
