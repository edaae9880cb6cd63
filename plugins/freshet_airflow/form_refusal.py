"""The error of a run whose trigger form was filled in wrongly."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowFailException


def form_refusal(problem: str, *, undone: str = "started") -> AirflowFailException:
    """The error that fails a run at once: a form does not get better by being tried again.

    Args:
        problem: what is wrong where, what is allowed, and what to do.
        undone: what was therefore not done.
    """
    return AirflowFailException(f"The form was filled in wrongly, and nothing was {undone}. {problem}")
