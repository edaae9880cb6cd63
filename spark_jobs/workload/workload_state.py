"""What the workload has written so far, so that the next run goes on behind it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_jobs.errors import WorkloadError


@dataclass
class _Position:
    scale: str | None
    next_order: int = 0
    next_file: int = 0


class WorkloadState:
    """Hands out order numbers and file numbers, each only once, across runs and crashes.

    Numbers are reserved on disk before anything is written with them. A run that is killed between
    reservation and writing leaves a gap in the sequence, never a number that is used twice.

    Args:
        file: where the state is kept; made by the first reservation.
        scale: TPC-H scale, as text: an order's number stands for an order of this scale only. None: of no table.

    Raises:
        WorkloadError: the file is damaged, or was made by a workload of another scale.
    """

    def __init__(self, file: Path, *, scale: str | None) -> None:
        self._file = file
        self._position = _read(file) if file.exists() else _Position(scale)
        if self._position.scale != scale:
            raise WorkloadError(
                f"The events of this home were made from TPC-H scale {self._position.scale}, not {scale}. "
                f"Use the same scale, or another FRESHET_HOME. ({file})"
            )

    def reserve(self, count: int) -> tuple[int, int]:
        """Reserve consecutive numbers and one file number; return the first order's (or event's) and the file's."""
        first, file_number = self._position.next_order, self._position.next_file
        self._position.next_order += count
        self._position.next_file += 1
        unfinished = self._file.with_name(f".{self._file.name}")
        unfinished.write_text(json.dumps(asdict(self._position)))
        unfinished.rename(self._file)
        return first, file_number

    @property
    def next_order(self) -> int:
        """Number of the first order that is not reserved."""
        return self._position.next_order


def _read(file: Path) -> _Position:
    try:
        return _Position(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise WorkloadError(
            f"{file} is damaged ({error}). Event ids that were written before may not be used again: "
            "empty the landing folders and the warehouse, or use another FRESHET_HOME; then remove the file."
        ) from error
