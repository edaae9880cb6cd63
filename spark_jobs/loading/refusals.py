"""What the fact table refuses: whether its tuples are to blame, or the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from spark_jobs.errors import LoadBlockedError
from spark_jobs.loading.server_errors import UNIQUE_VIOLATION
from spark_jobs.warehouse.fact_table import FactTable

# So few may be refused for any reason: a handful of bad tuples in a small batch must not stop a stream.
_LEAST = 20
_LONGEST_WORDS = 500
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|\d+""")


class Refusal(NamedTuple):
    """Why a tuple was refused.

    Attributes:
        reason: in words, as the held tuple keeps it.
        cause: equal for all tuples that are refused for the same reason; None where no change of the table's
            definition would let the tuple in.
    """

    reason: str
    cause: str | None

    @classmethod
    def by_encoder(cls, complaint: str) -> Refusal:
        """For a value that does not fit its column."""
        return cls(complaint, _VALUES.sub("", complaint))

    @classmethod
    def by_server(cls, sqlstate: str, message: str, detail: str, named: str) -> Refusal:
        """For an error that PostgreSQL raised; an empty SQLSTATE stands for a row that it dropped without any.

        Args:
            sqlstate: of the error.
            message: its primary message.
            detail: its detail, or nothing.
            named: the constraint or column that it names, or nothing.
        """
        if not sqlstate:
            told = "PostgreSQL did not store it, and raised no error: a trigger of the table drops it"
            return cls(told, told)
        told = f"PostgreSQL refuses it: {message}{f' ({detail})' if detail else ''}"
        cause = None if sqlstate == UNIQUE_VIOLATION else f"{sqlstate} {named or _VALUES.sub('', message)}"
        return cls(f"{told[:_LONGEST_WORDS]} [SQLSTATE {sqlstate}]", cause)


def blame_table(fact: FactTable, refusals: Sequence[Refusal], tried: int) -> None:
    """Don't go on where most tuples are refused for one reason: then it is the table's fault, and not theirs.

    Args:
        fact: the table.
        refusals: of tuples.
        tried: how many tuples there were, those that are not refused included.

    Raises:
        LoadBlockedError: it is the table's. Nothing of this is raised where the pipeline wants such tuples rejected.
    """
    causes = Counter(refusal.cause for refusal in refusals if refusal.cause is not None)
    if fact.on_refused == "reject" or not causes:
        return
    ((cause, refused),) = causes.most_common(1)
    if refused < _LEAST or 2 * refused <= tried:
        return
    reason = next(refusal.reason for refusal in refusals if refusal.cause == cause)
    told = " ".join(reason.split())[: _LONGEST_WORDS // 2]
    raise LoadBlockedError(
        f"{fact.schema}.{fact.table} refuses {refused:,} of {tried:,} tuples for one reason: {told}. Nothing is "
        f"rejected for that: change the table, and the load goes on by itself. If the tuples are wrong, set "
        f"`on_refused: reject` under `fact` in the pipeline's file, and restart the stream or the reprocessing."
    )
