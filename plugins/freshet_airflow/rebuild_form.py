"""The form that a rebuild of caches is triggered with, and the job's arguments that follow from it."""

from __future__ import annotations

from airflow.sdk import Context, Param

from freshet_airflow.form_refusal import form_refusal

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


def arguments(pipeline: str, context: Context) -> list[str]:
    """Arguments of rebuild_cache.py, after the pipeline's name, for what the run's form says.

    Raises:
        AirflowFailException: the form asks for nothing, or for what is not there; Spark needn't be started.
    """
    form = context["params"]
    if not form["hot_tuples"] and not form["snapshots"]:
        raise form_refusal(
            "hot_tuples and snapshots: both are off, so that there is nothing to rebuild. Trigger the DAG again with "
            "one of them, or both."
        )
    relations = form["relations"] or []
    _check_relations(pipeline, relations)
    return [
        *(f"--lookup={relation}" for relation in relations),
        "--hot" if form["hot_tuples"] else "--no-hot",
        "--snapshot" if form["snapshots"] else "--no-snapshot",
    ]


def _check_relations(pipeline: str, relations: list[str]) -> None:
    if not relations:
        return
    # Not at the top: the DAG files, which are read again and again, lead here.
    from spark_jobs.definition import load_definition

    known = [lookup.relation for lookup in load_definition(pipeline).lookups]
    unknown = [relation for relation in relations if relation not in known]
    if unknown:
        raise form_refusal(
            f"relations: no lookup of pipeline {pipeline} has {', '.join(unknown)}. Allowed: {', '.join(known)}. "
            "Trigger the DAG again with some of these, or with none for all."
        )
