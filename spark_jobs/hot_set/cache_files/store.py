"""The versions of one lookup's hot tuples in one folder."""

from __future__ import annotations

import re
from pathlib import Path

from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.files.durable import WRITING, write_durably
from spark_jobs.files.lock import exclusive_lock
from spark_jobs.files.versioned import newest_sound_version, newest_version
from spark_jobs.hot_set.cache_files.cache_version import CacheVersion, Origin
from spark_jobs.hot_set.cache_files.file_format import pack, unpack

# So many of each origin: what a driver learns every half minute must not push out a rebuilt version that it is
# about to take over.
KEPT_VERSIONS = 3

_NAME = re.compile(r"hot-(\d{10})\.(learned|rebuilt)")
_LOCK = ".lock"


class CacheStore:
    """Reads and writes versions of hot tuples. Any number of processes may do so at once.

    Args:
        folder: theirs alone; made with mode 0700 when the first version is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def versions(self, origin: Origin | None = None) -> list[int]:
        """The numbers of all versions there are, ascending; with an origin, of those only. Nothing is verified."""
        return sorted(number for number, (_, of) in self._files().items() if origin in (None, of))

    def newest(self, after: int = 0, origin: Origin | None = None) -> CacheVersion | None:
        """The newest version, if its number is above `after`. O(bytes) then, else O(versions).

        Raises:
            CacheDamagedError: that version is refused; its number is the error's `version`.
        """
        return newest_version(lambda: self.versions(origin), self.read, after)

    def newest_sound(
        self, after: int = 0, origin: Origin | None = None
    ) -> tuple[CacheVersion | None, list[CacheDamagedError]]:
        """The newest version above `after` that is not damaged, and why those above it are refused."""
        return newest_sound_version(lambda: self.versions(origin), self.read, after)

    def read(self, number: int) -> CacheVersion:
        """Read one version and verify it. O(bytes).

        Raises:
            CacheDamagedError: it is refused.
            FileNotFoundError: there is no such version, or no longer.
        """
        path, _ = self._files().get(number, (None, None))
        if path is None:
            raise FileNotFoundError(f"{self.folder} has no version {number}")
        return unpack(path, number)

    def write(self, version: CacheVersion) -> int:
        """Store a version: whole, or not at all. It is the newest then; all but the last three of its origin go.

        Returns:
            The number that it is stored under: its own, or the next one where that is taken or passed already.

        Raises:
            FreshetError: the disk is full, or the folder can't be written; all other versions are as they were.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with exclusive_lock(self.folder / _LOCK, wait=True):
                self._remove_leftovers()
                number = max([version.version, *(taken + 1 for taken in self._files())])
                write_durably(self.folder / f"hot-{number:010d}.{version.origin}", pack(version, number))
                self._remove_outdated(version.origin)
        except OSError as error:
            raise FreshetError(
                f"The hot tuples could not be written into {self.folder}: {error.strerror}. The versions that are "
                "there go on being used. Make room on the disk, or let the user that runs Freshet write there."
            ) from error
        return number

    def _files(self) -> dict[int, tuple[Path, str]]:
        """Path and origin of each version, by its number."""
        if not self.folder.is_dir():
            return {}
        matches = ((path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        return {int(match[1]): (path, match[2]) for path, match in matches if match}

    def _remove_leftovers(self) -> None:
        """Of writers that were killed: who holds the lock is the only one that writes."""
        for path in self.folder.glob(f"*{WRITING}"):
            path.unlink(missing_ok=True)

    def _remove_outdated(self, origin: Origin) -> None:
        files = self._files()
        for number in self.versions(origin)[:-KEPT_VERSIONS]:
            files[number][0].unlink(missing_ok=True)
