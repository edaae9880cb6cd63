"""The form that a reprocessing run is triggered with, and the job's arguments that follow from it."""

from __future__ import annotations

from airflow.sdk import Context, Param

from spark_jobs.reprocessing.request import BATCH_ALGORITHMS, WAITING_PLACES

FORM = {
    "places": Param(
        list(WAITING_PLACES),
        type="array",
        items={"type": "string", "enum": list(WAITING_PLACES)},
        minItems=1,
        uniqueItems=True,
        examples=list(WAITING_PLACES),
        values_display={
            "shed": "shed: not looked up for want of time",
            "unmatched": "unmatched: key was not in the master data",
        },
        title="Places",
        description="From where tuples are taken.",
    ),
    "arrived_from": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Arrived from",
        description="Only tuples that arrived then or later. Empty: from the first on.",
    ),
    "arrived_until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Arrived until",
        description="Only tuples that arrived before. Empty: up to the last.",
    ),
    "limit": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Limit",
        description="Tuples that the run takes at most. Empty: as the pipeline's file says.",
    ),
    "algorithm": Param(
        "auto",
        type="string",
        enum=list(BATCH_ALGORITHMS),
        title="Algorithm",
        description="How the master data is read; auto chooses by measured costs. "
        "A name counts for every lookup that can take it.",
    ),
    "all_unmatched": Param(
        False,
        type="boolean",
        title="Retry all unmatched now",
        description="Take unmatched tuples before their next try is due. Such a try does not count.",
    ),
    "yields": Param(
        True,
        type="boolean",
        title="Yield to the stream",
        description="End early when the stream is overloaded; a later run goes on.",
    ),
}


def arguments(context: Context) -> list[str]:
    """Arguments of reprocess_shed.py, after the pipeline's name, for what the run's form says."""
    form = context["params"]
    chosen = [f"--place={place}" for place in form["places"]]
    for name in ("arrived_from", "arrived_until", "limit", "algorithm"):
        if form[name] is not None:
            chosen.append(f"--{name.replace('_', '-')}={form[name]}")
    if form["all_unmatched"]:
        chosen.append("--all-unmatched")
    if not form["yields"]:
        chosen.append("--no-yield")
    return [*chosen, f"--airflow-run={context['run_id']}"]
