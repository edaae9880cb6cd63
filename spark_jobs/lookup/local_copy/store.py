"""The versions of one relation's copy in one folder."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from spark_jobs.durable_files import exclusive_lock, newest_sound_version, sync_folder, write_durably
from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.lookup.local_copy.copy_files import CopyManifest, read_manifest

# A copy is as large as R: the newest one, and the one that a running batch may still read.
KEPT_VERSIONS = 2

_NAME = re.compile(r"\d{10}")
_BUILDING, _MANIFEST, _LOCK = "building", "manifest", ".lock"


class CopyBuild:
    """The next version while it is written; made by `CopyStore.build`.

    Attributes:
        folder: where its parts are to be written.
    """

    def __init__(self, store: CopyStore, folder: Path) -> None:
        self._store = store
        self.folder = folder

    def finish(self, manifest: CopyManifest) -> CopyManifest:
        """Let the version take the place of the former one; the manifest as it can be read from now on."""
        for path in self.folder.iterdir():
            if path.name not in manifest.parts:  # of a task that Spark tried twice
                path.unlink()
        number = self._store.next_number()
        write_durably(self.folder / _MANIFEST, manifest.pack(number))
        self.folder.rename(self._store.folder / f"{number:010d}")
        sync_folder(self._store.folder)
        self._store.remove_outdated()
        return self._store.read(number)


class CopyStore:
    """Reads versions of a copy, any number of processes at once, and lets one process at a time write a new one.

    Args:
        folder: theirs alone; made with mode 0700 when the first version is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def versions(self) -> list[int]:
        """The numbers of all versions there are, ascending. Nothing is verified."""
        return sorted(int(path.parent.name) for path in self.folder.glob(f"*/{_MANIFEST}") if _is_version(path.parent))

    def newest_sound(self, after: int = 0) -> tuple[CopyManifest | None, list[CacheDamagedError]]:
        """The newest version above `after` whose manifest is not damaged, and why those above it are refused."""
        return newest_sound_version(self.versions, self.read, after)

    def read(self, number: int) -> CopyManifest:
        """The manifest of one version. O(pages); the pages themselves are verified when they are read.

        Raises:
            CacheDamagedError: it is refused.
            FileNotFoundError: there is no such version, or no longer.
        """
        return read_manifest(self.folder / f"{number:010d}" / _MANIFEST, number)

    @contextlib.contextmanager
    def build(self, expected_bytes: int) -> Iterator[CopyBuild]:
        """Write a new version in the block. What a killed writer has left is removed first, and at the end what
        has not been finished.

        Args:
            expected_bytes: about how large it will be; the disk must have room for it.

        Raises:
            FreshetError: another process writes one, the disk has no room, or the folder can't be written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with exclusive_lock(self.folder / _LOCK, wait=False):
                self._check_room(expected_bytes)
                building = self.folder / _BUILDING
                shutil.rmtree(building, ignore_errors=True)
                building.mkdir(mode=0o700)
                try:
                    yield CopyBuild(self, building)
                finally:
                    shutil.rmtree(building, ignore_errors=True)
        except BlockingIOError as error:
            raise FreshetError(
                f"Another rebuild writes a snapshot into {self.folder} right now. Wait for it to end; its snapshot "
                "will serve as well."
            ) from error
        except OSError as error:
            raise FreshetError(
                f"A snapshot could not be written into {self.folder}: {error.strerror}. The former one stays in "
                "use. Make room on the disk, or let the user that runs Freshet write there."
            ) from error

    def next_number(self) -> int:
        """Above those of all versions, even of one that has lost its manifest."""
        return max([0, *(int(path.name) for path in self.folder.iterdir() if _is_version(path))]) + 1

    def remove_outdated(self) -> None:
        """Remove all but the last two versions. A task that still reads an older one reads R live instead."""
        kept = {f"{number:010d}" for number in self.versions()[-KEPT_VERSIONS:]}
        for path in self.folder.iterdir():
            if _is_version(path) and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _check_room(self, expected_bytes: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if expected_bytes > free:
            raise FreshetError(
                f"A snapshot needs about {expected_bytes / 1e9:,.1f} GB, but {self.folder} has only "
                f"{free / 1e9:,.1f} GB left. Make room; the former snapshot stays in use."
            )


def _is_version(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None
