"""The folder of a pipeline's join state: how many buckets it has, and whose it is."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.durable_files import write_durably
from spark_jobs.errors import PipelineDefinitionError, StateDamagedError
from spark_jobs.join_state.bucket_plan import BucketPlan
from spark_jobs.join_state.state_folder import expect_made_for
from spark_jobs.join_state.stored_bucket import made_for
from spark_jobs.ledger.batch_streams import former_batch
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import warehouse_identity

_NOTE = "buckets.json"


class _Noted(NamedTuple):
    buckets: int
    warehouse: list[object]
    columns: dict[str, dict[str, str]]


class JoinFolder:
    """`state/<pipeline>/<bucket>/`, and a note beside the buckets.

    Args:
        home: the installation.
        pipeline: its name.
        shape: its streams and their join. Tuples that wait keep the columns, and types, with which they came.
        parts: how many buckets a new state gets. One that is there keeps its number: keys lie in their buckets.

    Attributes:
        path: the folder.
        buckets: how many there are; 0 until it is opened.
    """

    def __init__(self, home: Home, pipeline: str, shape: JoinedStreams, parts: int) -> None:
        self.path = home.join_state(pipeline)
        self.buckets = 0
        self._shape = shape
        self._pipeline = pipeline
        # Only equal keys are sure to lie in one bucket.
        self._parts = parts if shape.join.equal(next(iter(shape.streams))) else 1
        self._columns = {
            stream: {column: str(kind) for column, kind in source.columns.items()}
            for stream, source in shape.streams.items()
        }

    @property
    def noted(self) -> int:
        """The number of buckets of the state that is there; 0 where there is none."""
        return self._read().buckets

    def restore(self, connection: extensions.connection, version: int) -> bool:
        """As `open`, before buckets are made anew: False if their note is missing or damaged.

        Where keys lie is then not known any more. All buckets are to be made, and `note` to be called when they are in
        their places: until then no driver can begin with some of them.
        """
        try:
            noted = bool(self.noted)
        except StateDamagedError:
            noted = False
        if noted:
            self.open(connection, version)
        else:
            self.buckets = self._parts
        return noted

    def note(self, connection: extensions.connection) -> None:
        """Write down how many buckets there are, for which warehouse and streams."""
        self.path.mkdir(parents=True, exist_ok=True)
        note = {"buckets": self.buckets, "warehouse": _warehouse(connection), "columns": self._columns}
        write_durably(self.path / _NOTE, [json.dumps(note).encode()])

    def open(self, connection: extensions.connection, version: int) -> int:
        """The number of buckets; looked up once. For the pipeline's driver only.

        Args:
            connection: to the warehouse, not in a transaction.
            version: of the state that the ledger names; 0: it is to be empty.

        Raises:
            StateDamagedError, PipelineDefinitionError: as of `check`.
        """
        if not self.buckets:
            self.buckets = self.check(connection, version)
        if not self.buckets:
            self.buckets = self._parts
            self.note(connection)
        return self.buckets

    def check(self, connection: extensions.connection, version: int) -> int:
        """Compare the state that is there with the ledger and the definition; changes nothing.

        Args:
            connection, version: as of `open`.

        Returns:
            the number of buckets; 0 where there is no state, and none is to be.

        Raises:
            StateDamagedError: the state is not there, or is that of another warehouse; the message says what to do.
            PipelineDefinitionError: it was made for other streams.
        """
        buckets, owner, columns = self._read()
        if not buckets:
            if version:
                raise StateDamagedError(
                    f"The state of the join of pipeline {self._pipeline} is not in {self.path}: the ledger names "
                    f"version {version}. {_advice(self._pipeline)}"
                )
            return 0
        if not version and owner != _warehouse(connection):
            raise StateDamagedError(
                f"{self.path} holds the join state of another warehouse's pipeline {self._pipeline}; this warehouse "
                "has none yet, and would replace it. If the other warehouse is no more, remove that folder, and the "
                "stream begins with an empty state; otherwise use another FRESHET_HOME."
            )
        if columns != self._columns:
            changed = ", ".join(name for name in self._columns if columns.get(name) != self._columns[name])
            raise PipelineDefinitionError(
                f"The tuples that wait in {self.path} have other columns than the streams have now ({changed}). "
                "Go back to the former schema; or load with the new one under another pipeline name."
            )
        plan = made_for(BucketPlan.of(self._shape, buckets))
        for number in range(buckets) if version else ():  # Empty, it may be made for anything.
            with suppress(StateDamagedError):  # It is told when the bucket is opened, and can be mended.
                expect_made_for(self.path / str(number), plan)
        return buckets

    def _read(self) -> _Noted:
        """What is noted of the state; 0 buckets where there is none."""
        try:
            note = json.loads((self.path / _NOTE).read_bytes())
            return _Noted(int(note["buckets"]), list(note["warehouse"]), dict(note["columns"]))
        except FileNotFoundError:
            return _Noted(0, [], {})
        except (ValueError, KeyError, TypeError) as error:
            raise StateDamagedError(f"{self.path / _NOTE} is damaged: {error}. {_advice(self._pipeline)}") from error


def check_join_state(connection: extensions.connection, definition: PipelineDefinition, home: Home) -> None:
    """Compare the state of a pipeline's join, if it has one, with the ledger and the definition; changes nothing.

    Args:
        connection: to the warehouse, not in a transaction.
        definition: the pipeline.
        home: the installation.

    Raises:
        StateDamagedError, PipelineDefinitionError: as of `JoinFolder.check`.
    """
    shape = definition.shape
    if not isinstance(shape, JoinedStreams):
        return
    with connection, connection.cursor() as cursor:
        version = former_batch(cursor, definition.name).batch_no
    JoinFolder(home, definition.name, shape, parts=1).check(connection, version)


def _warehouse(connection: extensions.connection) -> list[object]:
    with connection:
        # A restored or promoted warehouse has another timeline.
        cluster, _, database = warehouse_identity(connection)
    return [str(cluster), int(database)]


def _advice(pipeline: str) -> str:
    return (
        f"`freshet rebuild-state {pipeline}` makes it anew from the landed files; or bring the folder back as it was, "
        "from a backup of this home."
    )
