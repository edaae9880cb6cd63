"""OpenLineage of a stream: that it runs, and of which columns of its source and its relations each fact is made.

Airflow's provider tells of tasks, each as a job that is of type batch, whatever its operator says. So the stream is a
job of its own, of type streaming, whose parent is the task that watches it. This file needs the provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from airflow.providers.openlineage.api import emit, is_openlineage_active
from airflow.providers.openlineage.plugins import macros
from airflow.sdk import Context
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset, job_type_job, parent_run, schema_dataset
from openlineage.client.uuid import generate_static_uuid
from psycopg2 import extensions

from freshet_airflow.warehouse_connection import warehouse_url
from spark_jobs.definition import Lookup, PipelineDefinition, load_definition
from spark_jobs.definition.joined_tuple import COMPLETED_AT, qualified
from spark_jobs.settings import Home, home

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

PRODUCER = f"freshet/{version('freshet')}"

_Column = column_lineage_dataset.InputField
_SAME = column_lineage_dataset.Transformation("DIRECT", "IDENTITY")
_DERIVED = column_lineage_dataset.Transformation("DIRECT", "TRANSFORMATION")
_JOINED_BY = column_lineage_dataset.Transformation("INDIRECT", "JOIN")


def tell(state: RunState, pipeline: str, warehouse_conn_id: str, context: Context) -> None:
    """Tell the lineage server of the stream's run, where the provider is configured to have one.

    All tries of a task are one run of the stream, which goes on while the task is cleared.

    Args:
        state: of the run.
        pipeline: name of the pipeline.
        warehouse_conn_id: Airflow connection of the warehouse.
        context: of the task that watches the stream.
    """
    if not is_openlineage_active():
        return
    task, dag_run = context["ti"], context["dag_run"]
    datasets = PipelineDatasets(load_definition(pipeline), warehouse_url(warehouse_conn_id), home())
    namespace = macros.lineage_job_namespace()
    identity = f"{namespace}.{dag_run.dag_id}.{dag_run.run_id}.stream"
    kind = job_type_job.JobTypeJobFacet("STREAMING", "FRESHET", "JOB", producer=PRODUCER)
    emit(
        RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(str(generate_static_uuid(dag_run.run_after, identity.encode())), {"parent": _parent(task)}),
            job=Job(namespace, f"freshet.{pipeline}", {"jobType": kind}),
            inputs=datasets.inputs(),
            outputs=[datasets.output()],
            producer=PRODUCER,
        )
    )


def _parent(task: RuntimeTaskInstanceProtocol) -> parent_run.ParentRunFacet:
    """The task's run, and that of its DAG."""
    root_job = parent_run.RootJob(macros.lineage_root_job_namespace(task), macros.lineage_root_job_name(task))
    return parent_run.ParentRunFacet(
        parent_run.Run(macros.lineage_run_id(task)),
        parent_run.Job(macros.lineage_job_namespace(), macros.lineage_job_name(task)),
        parent_run.Root(parent_run.RootRun(macros.lineage_root_run_id(task)), root_job),
    )


class PipelineDatasets:
    """The datasets of a pipeline, by OpenLineage's naming conventions.

    Args:
        definition: the pipeline's.
        warehouse_url: libpq URL of the warehouse; only host, port and database are told.
        home: the installation, for the folders of landed files.
    """

    def __init__(self, definition: PipelineDefinition, warehouse_url: str, home: Home) -> None:
        self._definition = definition
        self._warehouse = extensions.parse_dsn(warehouse_url)
        self._home = home

    def inputs(self) -> list[InputDataset]:
        """The source, or the streams, and the relation of each lookup, each once."""
        datasets = {
            source.kind.dataset(source, self._home): {name: str(kind) for name, kind in source.columns.items()}
            for source in self._definition.streams.values()
        }
        for lookup in self._definition.lookups:
            known = datasets.setdefault(self._table_name(lookup.relation), {})
            known |= dict.fromkeys([*lookup.on.values(), *(lookup.validity or ()), *lookup.fetch.values()], "")
        return [
            InputDataset(namespace, name, facets={"schema": _schema(columns)})
            for (namespace, name), columns in datasets.items()
        ]

    def output(self) -> OutputDataset:
        """The fact table, and of which columns each of its own is made."""
        fact = self._definition.fact
        fields = {
            column: column_lineage_dataset.Fields(made_of)
            for column, origin in fact.columns.items()
            if (made_of := list(self._made_of(origin)))
        }
        lineage = column_lineage_dataset.ColumnLineageDatasetFacet(fields, list(self._joined_by()))
        namespace, name = self._table_name(fact.table)
        return OutputDataset(
            namespace, name, facets={"schema": _schema(dict.fromkeys(fact.columns, "")), "columnLineage": lineage}
        )

    def _made_of(self, origin: str) -> Iterator[_Column]:
        """The columns that a column of the joined tuple is taken from; none for the number of the load."""
        for lookup in self._definition.lookups:
            if origin in lookup.fetch:
                yield _Column(*self._table_name(lookup.relation), lookup.fetch[origin], [_SAME])
                return
        for stream, source in self._definition.streams.items():
            dataset = source.kind.dataset(source, self._home)
            if origin == COMPLETED_AT and stream:
                yield _Column(*dataset, source.event_time, [_DERIVED])
            for column in source.columns:
                if origin == (qualified(stream, column) if stream else column):
                    yield _Column(*dataset, column, [_SAME])

    def _joined_by(self) -> Iterator[_Column]:
        """The columns that tell which tuples make a fact together."""
        for stream, columns in self._definition.shape.on.items():
            for column in columns:
                source = self._definition.streams[stream]
                yield _Column(*source.kind.dataset(source, self._home), column, [_JOINED_BY])
        for lookup in self._definition.lookups:
            yield from self._looked_up_by(lookup)

    def _looked_up_by(self, lookup: Lookup) -> Iterator[_Column]:
        relation = self._table_name(lookup.relation)
        at = [] if lookup.as_of is None else [self._definition.tuples.event_time]
        for origin in [*lookup.on, *at]:
            for made_of in self._made_of(origin):
                yield _Column(made_of.namespace, made_of.name, made_of.field, [_JOINED_BY])
        for column in [*lookup.on.values(), *(lookup.validity or ())]:
            yield _Column(*relation, column, [_JOINED_BY])

    def _table_name(self, table: str) -> tuple[str, str]:
        host = self._warehouse.get("host", "localhost").split(",")[0]
        if host.startswith("/"):  # the folder of a socket
            host = "localhost"
        port = self._warehouse.get("port", "5432").split(",")[0]
        return f"postgres://{host}:{port}", f"{self._warehouse.get('dbname', 'postgres')}.{table}"


def _schema(columns: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    """Of columns by name; a type that the definition does not tell is left out."""
    return schema_dataset.SchemaDatasetFacet(
        [schema_dataset.SchemaDatasetFacetFields(name, kind or None) for name, kind in columns.items()]
    )
