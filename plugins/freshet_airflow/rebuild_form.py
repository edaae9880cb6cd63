"""The form that a rebuild of caches is triggered with, and the job's arguments that follow from it."""

from __future__ import annotations

from airflow.sdk import Context, Param

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
    """Arguments of rebuild_cache.py, after the pipeline's name, for what the run's form says."""
    form = context["params"]
    return [
        *(f"--lookup={relation}" for relation in form["relations"] or []),
        "--hot" if form["hot_tuples"] else "--no-hot",
        "--snapshot" if form["snapshots"] else "--no-snapshot",
    ]
