"""Compiled modules are kept for the next process, whatever the environment says."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.private_files import make_trusted
from spark_jobs.settings import Home


def keeping_bytecode(environment: Mapping[str, str], home: Home) -> dict[str, str]:
    """The environment; where it asks for no compiled modules beside the source, they go into the installation.

    Containers often set PYTHONDONTWRITEBYTECODE. Each driver, worker and component of Airflow would then compile all
    that it imports: half of the processor time of a driver's start.

    Args:
        environment: of a process to be started.
        home: the installation.
    """
    kept = dict(environment)
    if kept.pop("PYTHONDONTWRITEBYTECODE", None):
        make_trusted(home.bytecode)
        kept.setdefault("PYTHONPYCACHEPREFIX", str(home.bytecode))
    return kept
