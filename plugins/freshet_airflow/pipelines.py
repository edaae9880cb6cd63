"""The pipelines that DAG files make DAGs for."""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from spark_jobs.definition import definition_files


def pipeline_names() -> list[str]:
    """Names of the pipelines to make DAGs for: all, or only one while one of its tasks runs.

    A pipeline has the name of its file, so no file is read. A file whose name can't be a pipeline's is left out. One
    that has two files has its DAGs once; that neither file counts is reported where the definitions are loaded.
    """
    names = dict.fromkeys(path.stem for path in definition_files() if path.stem.isidentifier())
    wanted = get_parsing_context().dag_id
    return [name for name in names if wanted is None or wanted.endswith(f"__{name}")]
