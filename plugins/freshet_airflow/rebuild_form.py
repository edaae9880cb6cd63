"""The form that a rebuild of caches is triggered with, and the job's arguments that follow from it."""

from __future__ import annotations

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException

FORM = {
    "relations": Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Relations",
        description="Rebuild only lookups of these relations (schema.table, one a line). Empty: all.",
    ),
    "hot_tuples": Param(
        True,
        type="boolean",
        title="Hot tuples",
        description="Rebuild the front stages: the tuples that were found most often, read anew.",
    ),
    "snapshots": Param(
        True,
        type="boolean",
        title="Snapshots",
        description="Make new snapshots of relations whose lookups say read: snapshot.",
    ),
}


def arguments(context: Context) -> list[str]:
    """Arguments of rebuild_cache.py, after the pipeline's name, for what the run's form says.

    Raises:
        AirflowFailException: the form asks for nothing; Spark needn't be started.
    """
    form = context["params"]
    if not form["hot_tuples"] and not form["snapshots"]:
        raise AirflowFailException(
            "The form was filled in wrongly, and nothing was started. hot_tuples and snapshots: both are off, so that "
            "there is nothing to rebuild. Trigger the DAG again with one of them, or both."
        )
    return [
        *(f"--lookup={relation}" for relation in form["relations"] or []),
        "--hot" if form["hot_tuples"] else "--no-hot",
        "--snapshot" if form["snapshots"] else "--no-snapshot",
    ]
