"""Steps that are taken again and again, none of which keeps the others from being taken when it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError

_log = logging.getLogger(__name__)


class SeparateSteps:
    """Takes each step by itself. A failure is logged when it begins or turns into another one, not every time.

    Args:
        purpose: what the steps are for, for the log.
    """

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._failures: dict[str, str] = {}

    def take(self, name: str, connection: extensions.connection, step: Callable[[], None]) -> None:
        """Take a step; if it fails, the connection is ready for the next one.

        Args:
            name: tells the steps apart.
            connection: to the warehouse, which the step uses.
            step: what to do.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away, in which no step would succeed.
        """
        try:
            step()
        except WarehouseUnavailableError:
            raise
        except Exception as error:
            if connection.closed:
                raise
            # Further lines quote the query, which differs from time to time.
            failure = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if self._failures.get(name) != failure:
                self._failures[name] = failure
                _log.exception("%s: %s failed; it is tried again, and the rest goes on", self._purpose, name)
            connection.rollback()
        else:
            if self._failures.pop(name, None) is not None:
                _log.info("%s: %s succeeds again", self._purpose, name)
