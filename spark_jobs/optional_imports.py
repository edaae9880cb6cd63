"""Lets libraries do without optional dependencies that this package never uses them with."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec


def do_without_pandas_and_scipy() -> None:
    """Have PyArrow find no pandas and numba no SciPy, in this process, from now on.

    PyArrow looks for pandas when it makes its first array of Python objects, and numba for SciPy's BLAS when it loads
    its first kernel. Each keeps to what it has found. The two take more processor time to import than all that a worker
    needs. Others may import either later.
    """
    finder = _NotFound()
    sys.meta_path.insert(0, finder)
    try:
        import_module("numba.np.arraymath")
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


class _NotFound:
    """Finds that neither is installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ("pandas", "scipy"):
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None
