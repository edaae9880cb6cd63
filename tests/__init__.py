"""The tests, which start hundreds of processes: compiled modules are kept for them, whatever the environment says.

Containers often set PYTHONDONTWRITEBYTECODE. Each process would then compile all that it imports, for Airflow alone
more than two seconds of processor time. Nothing is written beside the source, which is what was asked for.
"""

from __future__ import annotations

import os
import sys

from spark_jobs.settings import PROJECT_ROOT

if sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(PROJECT_ROOT / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
