"""An installation's home, closed to the other users of the machine."""

from __future__ import annotations

from spark_jobs.settings import Home


def make_private(home: Home) -> None:
    """Make the home for its owner alone; in one that is there, close the folders that hold passwords, logs or data.

    Who has opened a home so that others can land their events there has it stay open.
    """
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    of_pipelines = (folder("of any").parent for folder in (home.caches, home.checkpoint, home.data_docs))
    for folder in (home.airflow, home.logs, home.processes, *of_pipelines):
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
