"""What becomes of files that are loaded: archived, or deleted after some time."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_jobs.source.files.names import modified_ns_of, name_of

_log = logging.getLogger(__name__)


class LoadedFiles:
    """Removes loaded files from a landing folder.

    Args:
        folder: the landing folder.
        archive: where they go; None: they are deleted.
        kept: how long they stay after they were loaded.
        prefix: how the ledger's names of these files begin, where it has files of other folders, too.

    Attributes:
        prefix: as it was given.
    """

    def __init__(self, folder: Path, archive: Path | None, kept: timedelta, prefix: str = "") -> None:
        self.prefix = prefix
        self._folder = folder
        self._archive = archive
        self._kept = kept

    @property
    def loaded_before(self) -> datetime:
        """What was loaded before this time is to go now."""
        return datetime.now(UTC) - self._kept

    def remove(self, loaded: Iterable[tuple[str, int, int]]) -> list[str]:
        """Archive or delete files, but for those that were changed since.

        Args:
            loaded: (unit, size, mtime in ns), as they were when they were loaded.

        Returns:
            the units that are in the folder no longer.
        """
        gone = []
        for unit, size, modified_ns in loaded:
            path = self._folder / name_of(unit.removeprefix(self.prefix))
            try:
                status = path.lstat()
                if (status.st_size, modified_ns_of(status)) == (size, modified_ns):
                    self._remove(path, modified_ns)
                    gone.append(unit)
            except FileNotFoundError:
                gone.append(unit)
            except OSError as error:
                _log.warning("%s could not be removed after it was loaded, and stays: %s", path, error)
        return gone

    def _remove(self, path: Path, modified_ns: int) -> None:
        if self._archive is None:
            path.unlink()
            return
        self._archive.mkdir(parents=True, exist_ok=True)
        # Names may come again; what is in the archive is never overwritten.
        endings = itertools.chain(
            ["", f".{modified_ns}"], (f".{modified_ns}.{number}" for number in itertools.count(2))
        )
        targets = (self._archive / f"{path.name}{ending}" for ending in endings)
        shutil.move(path, next(target for target in targets if not target.exists()))
