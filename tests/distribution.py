"""Which tests run in the same process, when the whole suite runs in two: those that share what takes long to make."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# Folders in the order in which they are begun, those that take longest first. The tests of one run in one process,
# for there is one Airflow, or one browser, for all of them. Elsewhere a file is what is not taken apart.
TOGETHER = ("tests/browser/", "tests/airflow/")
FIRST = (*TOGETHER, "tests/spark/", "tests/reprocessing/", "tests/faults/")


def order(nodeid: str) -> int:
    """Sorts tests: those that take longest come first, so that none is left for last."""
    return next((number for number, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


class FolderScheduling(LoadScopeScheduling):
    """Hands out folders that stay together, and files."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])
