"""Finds the tuples that PostgreSQL refuses, by halving what was sent until they stand alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import psycopg2
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.warehouse.loading.server_errors import Meaning, meaning, refusal

Bools = NDArray[np.bool_]


def store_by_halves(
    cursor: extensions.cursor, count: int, store: Callable[[int, int], None]
) -> tuple[Bools, dict[int, str]]:
    """Store the tuples from 0 to before `count`, all but those that PostgreSQL refuses.

    Args:
        cursor: in a transaction, which goes on afterwards.
        count: how many tuples.
        store: stores the tuples from its first to before its second argument, or raises.

    Returns:
        which tuples are stored, bool, shape (count,), and for each of the others PostgreSQL's words. For k
        refused tuples it takes O(k log(count / k)) statements.

    Raises:
        psycopg2.Error: an error that no single tuple is to blame for.
    """
    stored = np.zeros(count, np.bool_)
    refused: dict[int, str] = {}
    waiting = [(0, count)] if count else []
    while waiting:
        start, stop = waiting.pop()
        cursor.execute("SAVEPOINT before_part")
        try:
            store(start, stop)
        except psycopg2.Error as error:
            if meaning(error, connection_lost=bool(cursor.connection.closed)) not in (
                Meaning.TUPLE_REFUSED,
                Meaning.CONFLICT,
            ):
                raise
            cursor.execute("ROLLBACK TO before_part")
            if stop - start == 1:
                refused[start] = refusal(error)
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
        else:
            stored[start:stop] = True
        cursor.execute("RELEASE before_part")
    return stored, refused
