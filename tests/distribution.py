"""Which tests run in the same process, and when, when the whole suite runs in several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from xdist.scheduler import LoadScopeScheduling

# The tests of one of these folders run in one process, one after the other, for there is one Airflow, or one browser,
# for all of them: they are begun first. Elsewhere a file is what is not taken apart.
TOGETHER = ("tests/browser/", "tests/airflow/")
# Tests that wait for other processes most of the time; those that need compiled kernels come when there are some.
WAITING = ("tests/local/", "tests/spark/", "tests/faults/", "tests/authoring/", "tests/reprocessing/")
# Of the others, which compute: those that compile the kernels come first, for all processes find what one has compiled.
COMPILING = ("tests/conformance/", "tests/stages/", "tests/hot_set/", "tests/relation/", "tests/experiments/")


def scope(nodeid: str) -> str:
    """What a test is not taken away from: a folder that stays together, or its file."""
    return _folder(nodeid, TOGETHER) or nodeid.partition("::")[0]


def order(scopes: Iterable[str]) -> dict[str, float]:
    """Sorts scopes: what waits is spread over what computes, so that there is something of both all the time."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for each in dict.fromkeys(scopes):
        kinds["waiting" if _folder(each, WAITING) else "computing"].append(each)
    kinds["waiting"].sort(key=lambda each: WAITING.index(_folder(each, WAITING)))
    first = (*TOGETHER, *COMPILING)
    kinds["computing"].sort(key=lambda each: first.index(_folder(each, first)) if _folder(each, first) else len(first))
    return {each: place / len(kind) for kind in kinds.values() for place, each in enumerate(kind)} | dict.fromkeys(
        TOGETHER, -1.0
    )


def _folder(name: str, folders: Iterable[str]) -> str:
    """Which of the folders it is in; none: an empty text."""
    return next((folder for folder in folders if name.startswith(folder)), "")


class FolderScheduling(LoadScopeScheduling):
    """Hands out folders that stay together, and files."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)
