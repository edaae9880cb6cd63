"""Who is compared: what each does, what it needs, and where it can't be run."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.errors import FreshetError
from spark_jobs.experiments.load.case import LoadCase

if TYPE_CHECKING:
    from spark_jobs.experiments.load.event_forms import Form

GROUP = "contenders"
"""The dependency group that has the scripts' packages: `uv run --group contenders freshet bench load`."""


@dataclass(frozen=True)
class Contender:
    """A way to load the events.

    Attributes:
        name: as it is given on the command line.
        label: what it does.
        packages: modules that are no dependencies of Freshet.
        keeps_relation: it holds all needed columns of R in memory, and can't be run where they don't fit.
        takes_one_in: it is slow, and loads one event file in so many.
        form: in which it takes the events.
        looks_up: whether its facts have what R has for their key; if not, the key itself.
    """

    name: str
    label: str
    packages: tuple[str, ...] = ()
    keeps_relation: bool = False
    takes_one_in: int = 1
    form: Form = "parquet"
    looks_up: bool = True

    @property
    def is_freshet(self) -> bool:
        """Whether it is Freshet."""
        return self.name.startswith("freshet")


_ALL = (
    Contender("freshet", "Freshet, end to end"),
    Contender("freshet-json", "Freshet, JSON files", form="json"),
    Contender("freshet-topic-json", "Freshet, a topic of JSON", form="topic-json"),
    Contender("freshet-topic-avro", "Freshet, a topic of Avro", form="topic-avro"),
    Contender("kafka-connect", "Kafka Connect, JDBC sink: upserts, no lookup", form="topic-json", looks_up=False),
    Contender("polars-adbc", "polars + ADBC, R cached, a process a core", ("polars", "adbc_driver_postgresql"), True),
    Contender("duckdb-cached", "DuckDB, R cached", ("duckdb", "duckdb_ext"), True),
    Contender("duckdb-rereading", "DuckDB, R read for each 400,000 events", ("duckdb", "duckdb_ext")),
    Contender("postgres-elt", "PostgreSQL: COPY of CSV, join, ON CONFLICT"),
    Contender("spark-copy", "Spark, R broadcast if it fits, ADBC sink", ("adbc_driver_postgresql",)),
    Contender("spark-cached", "Spark, R cached, JDBC sink", (), True),
    Contender("spark-rereading", "Spark, R read per batch, JDBC sink"),
    Contender("lru-cache", "psycopg2 with an LRU cache, batched", takes_one_in=5),
    Contender("copy-limit", "limit: COPY of joined, encoded rows"),
)
CONTENDERS = {contender.name: contender for contender in _ALL}
QUICK = ("freshet", "polars-adbc", "duckdb-cached", "duckdb-rereading", "copy-limit")
"""Those that are run where none is named."""


def chosen_contenders(names: list[str]) -> list[Contender]:
    """The contenders of these names, or else the quick ones.

    Raises:
        FreshetError: there is none of a name, or its packages are not installed; the message says what to do.
    """
    chosen = []
    for name in names or QUICK:
        if name not in CONTENDERS:
            raise FreshetError(f"{name!r} is no contender. Allowed: {', '.join(CONTENDERS)}.")
        absent = [package for package in CONTENDERS[name].packages if find_spec(package) is None]
        if absent:
            raise FreshetError(
                f"{name} needs {' and '.join(absent)}, which Freshet does without. "
                f"Run: uv run --group {GROUP} freshet bench load ..., or name other contenders."
            )
        chosen.append(CONTENDERS[name])
    return chosen


def require_room(contender: Contender, case: LoadCase) -> None:
    """Refuse a contender that keeps R where R does not fit.

    Raises:
        FreshetError: so it is; the message has both sizes.
    """
    if contender.keeps_relation and not case.fits:
        raise FreshetError(
            f"{contender.name} keeps all needed columns of R, {format_bytes(case.needed_bytes)}, "
            f"and may keep {format_bytes(case.memory_bytes)}"
        )
