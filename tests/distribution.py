"""Which tests run in the same process, and when, when the whole suite runs in several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from xdist.scheduler import LoadScopeScheduling

# What tests share that takes long to make, and where they are: they run in one process, one after the other. Elsewhere
# a file is what is not taken apart.
TOGETHER = {
    "Airflow's page": ("tests/browser/",),
    "Airflow's database": ("tests/airflow/",),
    "Great Expectations": ("tests/validation/",),
    "Kafka": ("tests/spark/test_kafka", "tests/source/test_kafka_topic", "tests/workload/test_topics"),
}
FIRST = ("Airflow's page", "Airflow's database", "Great Expectations")
# Tests that wait for other processes most of the time; those that need compiled kernels come when there are some.
WAITING = (
    *("tests/launch/", "tests/local/", "Kafka", "tests/spark/", "tests/faults/", "tests/authoring/"),
    "tests/reprocessing/",
)
# Of the others, which compute: those that compile the kernels come first, for all processes find what one has compiled.
COMPILING = ("tests/conformance/", "tests/stages/", "tests/lookup/", "tests/experiments/")


def scope(nodeid: str) -> str:
    """What a test is not taken away from: what it shares with others, or its file."""
    file = nodeid.partition("::")[0]
    return next((shared for shared, places in TOGETHER.items() if file.startswith(places)), file)


def order(scopes: Iterable[str]) -> Mapping[str, float]:
    """Sorts scopes: what waits is spread over what computes, so that there is something of both all the time."""
    kinds: dict[bool, list[str]] = defaultdict(list)
    for each in dict.fromkeys(scopes):
        kinds[each.startswith(WAITING)].append(each)
    place: dict[str, float] = {}
    for waiting, kind in kinds.items():
        kind.sort(key=lambda each, first=WAITING if waiting else COMPILING: _rank(each, first))
        place.update((each, number / len(kind)) for number, each in enumerate(kind))
    return place | dict.fromkeys(FIRST, -1.0)


def _rank(name: str, first: tuple[str, ...]) -> int:
    """The first of the folders that it is in; without one it comes last."""
    return next((number for number, folder in enumerate(first) if name.startswith(folder)), len(first))


class FolderScheduling(LoadScopeScheduling):
    """Hands out what stays together, and files."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)
