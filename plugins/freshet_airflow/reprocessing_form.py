"""The form that a reprocessing run is triggered with, and the job's arguments that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException

from freshet_airflow.form_refusal import form_refusal
from spark_jobs.definition.fates import SHED, UNMATCHED, WAITING_PLACES
from spark_jobs.reprocessing.request import BATCH_ALGORITHMS
from spark_jobs.timestamps import check_window, parse_timestamp

# What a run can't do in days, a later one may: more than this is a typing error.
MOST_TUPLES = 1_000_000_000

# What chooses among held tuples; the forms to retry and to forget them have it in common.
FILTER = {
    "reason": Param(
        None,
        type=["null", "string"],
        title="Reason",
        description="Only tuples whose reason contains this text. Empty: whatever the reason.",
    ),
    "text": Param(
        None,
        type=["null", "string"],
        title="Text of the record",
        description="Only tuples whose record, as it arrived, contains this text. Empty: whatever it is.",
    ),
    "arrived_from": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Arrived from",
        description="Only tuples that arrived then or later. Empty: from the first on.",
    ),
}

FORM = {
    "places": Param(
        list(WAITING_PLACES),
        type="array",
        items={"type": "string", "enum": list(WAITING_PLACES)},
        minItems=1,
        uniqueItems=True,
        examples=list(WAITING_PLACES),
        values_display={
            SHED.place: f"{SHED}: not looked up for want of time",
            UNMATCHED.place: f"{UNMATCHED}: key was not in the master data",
        },
        title="Places",
        description="From where tuples are taken.",
    ),
    **FILTER,
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
        maximum=MOST_TUPLES,
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
    "requeue": Param(
        None,
        type=["null", "string"],
        minLength=1,
        title="Give rejected tuples a new try",
        description="Text that their reason contains, such as: no partition. Tuples rejected for it, of those that "
        "text and times above allow, are taken as if they had been shed. Fix what refused them first. Empty: none.",
    ),
    "yields": Param(
        True,
        type="boolean",
        title="Yield to the stream",
        description="End early when the stream is overloaded; a later run goes on.",
    ),
}


def arguments(context: Context) -> list[str]:
    """Arguments of reprocess_shed.py, after the pipeline's name, for what the run's form says.

    Raises:
        AirflowFailException: the form's times are none, or leave no time between them; Spark needn't be started.
    """
    form = context["params"]
    chosen = [f"--place={place}" for place in form["places"]]
    for name, bound in _arrival(form).items():
        if bound is not None:
            chosen.append(f"--{name.replace('_', '-')}={bound.isoformat()}")
    if form["limit"] is not None:
        chosen.append(f"--limit={int(form['limit'])}")  # a form takes 1.0 for an integer
    chosen.append(f"--algorithm={form['algorithm']}")
    chosen += [f"--{name}={form[name]}" for name in ("reason", "text") if form[name] is not None]
    if form["all_unmatched"]:
        chosen.append("--all-unmatched")
    if form["requeue"] is not None:
        chosen.append(f"--requeue={form['requeue']}")
    if not form["yields"]:
        chosen.append("--no-yield")
    by = asked_by(context)
    return [*chosen, f"--airflow-run={context['run_id']}", *([] if by is None else [f"--by={by}"])]


def asked_by(context: Context) -> str | None:
    """Name of the user who triggered the run; None of a run that a schedule or an asset has started."""
    name: str | None = context["dag_run"].triggering_user_name
    return name


def moment(form: Mapping[str, Any], name: str) -> datetime | None:
    """A time of the form; None for none. Airflow takes any text for it: nothing there checks the format date-time.

    Raises:
        AirflowFailException: it is no time.
    """
    try:
        return None if form[name] is None else parse_timestamp(form[name])
    except ValueError as error:
        raise _refusal(name, error) from error


def _arrival(form: Mapping[str, Any]) -> dict[str, datetime | None]:
    """The form's two times."""
    moments = {name: moment(form, name) for name in ("arrived_from", "arrived_until")}
    try:
        check_window(*moments.values())
    except ValueError as error:
        raise _refusal("arrived_from and arrived_until", error) from error
    return moments


def _refusal(where: str, error: ValueError) -> AirflowFailException:
    return form_refusal(f"{where}: {error} Trigger the DAG again; a time that is to have no bound stays empty (null).")
