"""Landing folders as a kind of source."""

from __future__ import annotations

import os
from collections.abc import Iterator

from psycopg2 import extensions

from spark_jobs.definition import Source
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.after_load import LoadedFiles
from spark_jobs.source.files.landed_files import LandedFiles
from spark_jobs.source.files.landing import FolderLanding
from spark_jobs.source.files.names import is_landed, name_of
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.kind import ReadsAgain, SourceKind, SourceNote, SourceStream
from spark_jobs.source.records.record_decoder import RecordDecoder

_MOST_COUNTED = 100_000


class LandingFolders(SourceKind):
    """Files that land in folders."""

    def reader(self, source: Source, pipeline: str, stream: str | None) -> FileReader:
        """As of `SourceKind`; it has no connection."""
        return FileReader()

    def landed(self, stream: SourceStream, positions: PartitionPositions) -> LandedFiles:
        """As of `SourceKind`; the folder is made if it is not there."""
        folder = landing_folder(stream.source, stream.home)
        folder.mkdir(parents=True, exist_ok=True)
        return LandedFiles(folder, cuttable=stream.source.record_format.is_divisible)

    def removal(self, stream: SourceStream) -> LoadedFiles | None:
        """As of `SourceKind`."""
        policy = stream.source.after_load
        if policy == "keep":
            return None
        folder = landing_folder(stream.source, stream.home)
        return LoadedFiles(folder, policy.archive_folder(stream.home), policy.kept, stream.prefix)

    def again(self, stream: SourceStream) -> FilesAgain:
        """As of `SourceKind`."""
        return FilesAgain(stream)

    def landing(self, stream: SourceStream, cursor: extensions.cursor) -> FolderLanding:
        """As of `SourceKind`."""
        return FolderLanding(stream, cursor)

    def look(self, stream: SourceStream, name: str) -> Iterator[SourceNote]:
        """As of `SourceKind`: how many files have landed, and who else may write there."""
        yield SourceNote(_landed(stream, name))

    def is_gone(self, stream: SourceStream, unit: str) -> bool:
        """As of `SourceKind`."""
        return not os.path.lexists(landing_folder(stream.source, stream.home) / name_of(unit))


class FileReader:
    """Reads slices of files."""

    def get_ready(self) -> None:
        """Nothing takes time."""

    def __call__(self, piece: FileSlice, decoder: RecordDecoder) -> Iterator[Arrivals]:
        """As of `read_slice`."""
        return read_slice(piece, decoder)


class FilesAgain(ReadsAgain):
    """Finds files where they landed, or where they were moved to after they were loaded."""

    def __init__(self, stream: SourceStream) -> None:
        policy = stream.source.after_load
        self._folder = landing_folder(stream.source, stream.home)
        self._archive = None if policy == "keep" else policy.archive_folder(stream.home)

    def piece(self, planned: SourceRange) -> tuple[str, FileSlice]:
        """As of `ReadsAgain`."""
        name = name_of(planned.unit)
        path = self._folder / name
        if self._archive is not None and not path.exists():
            path = self._archive / name
        if planned.size is None or planned.modified_ns is None:
            raise FreshetError(f"{path} is needed, and can't be read: the ledger does not know which file it was.")
        return str(path), FileSlice(
            0, str(path), planned.first, planned.last, planned.size, planned.modified_ns, planned.poison
        )


def _landed(stream: SourceStream, name: str) -> str:
    folder = landing_folder(stream.source, stream.home)
    try:
        names = [path.name for _, path in zip(range(_MOST_COUNTED), folder.iterdir(), strict=False)]
    except FileNotFoundError:
        return f"{name}: {folder} is not there yet; the stream makes it when it starts"
    except OSError as error:
        return f"{name}: {folder} can't be read here: {error.strerror}"
    landed = sum(map(is_landed, names))
    more = "at least " if len(names) == _MOST_COUNTED else ""
    links = sum((folder / name).is_symlink() for name in names)
    told = f"{name}: {more}{landed:,} landed files in {folder} ({stream.source.format})"
    if links:
        told += f"; {more}{links:,} links there are not read: let the files themselves land"
    if os.geteuid() == 0 and folder.stat().st_mode & 0o022:
        told += "; other users may write there, and the driver runs as root: run it as a user of its own"
    return told
