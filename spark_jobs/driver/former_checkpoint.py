"""Takes over the position of a stream whose former driver kept it in Spark's checkpoint: once, into the ledger."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.errors import PlatformError
from spark_jobs.ledger.source_ranges import SourceRange, note_ranges
from spark_jobs.settings import Home
from spark_jobs.source.files.names import modified_ns_of, unit_of

_log = logging.getLogger(__name__)

_LOG_VERSION = "v1"


def take_over_checkpoint(connection: extensions.connection, definition: PipelineDefinition, home: Home) -> None:
    """Note the files that the checkpoint says are committed as loaded, and put the checkpoint aside.

    What the streaming query had planned and not committed is read again; what of it is stored is left out then.
    Nothing to do where there is no checkpoint.

    Args:
        connection: the driver's; this is one transaction on it.
        definition: the pipeline.
        home: the installation.

    Raises:
        PlatformError: the checkpoint can't be understood.
    """
    checkpoint = home.checkpoint(definition.name)
    if not checkpoint.is_dir():
        return
    folder = landing_folder(definition.source, home)
    loaded = [_range(folder, path) for path in committed_files(checkpoint) if _is_in(path, folder)]
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM freshet.source_range WHERE pipeline = %s LIMIT 1", [definition.name])
        if not cursor.fetchone():  # a crash may have come between the commit and the renaming
            note_ranges(cursor, definition.name, loaded, "loaded")
    kept = next(name for name in _free_names(checkpoint) if not name.exists())
    checkpoint.rename(kept)
    _log.info("%s: %d loaded files are in the ledger now; %s is no longer used", definition.name, len(loaded), kept)


def _free_names(checkpoint: Path) -> Iterator[Path]:
    """What a checkpoint that is taken over may be called: there may be a former one, if the version went back."""
    for number in itertools.count():
        yield checkpoint.with_name(f"{checkpoint.name}.taken-over{number or ''}")


def committed_files(checkpoint: Path) -> set[Path]:
    """The files whose batches the streaming query has committed; empty where it has committed none.

    Raises:
        PlatformError: the checkpoint can't be understood.
    """
    committed = _numbers(checkpoint / "commits")
    if not committed:
        return set()
    try:
        last_log = _log_offset(checkpoint / "offsets" / str(max(committed)))
        return set(_logged(checkpoint / "sources" / "0", last_log))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise PlatformError(
            f"Spark's checkpoint {checkpoint} can't be understood ({error}). If it is broken, move it away while "
            f"no driver runs: all landed files are then loaded again, and what is stored already is left out."
        ) from error


def _is_in(path: Path, folder: Path) -> bool:
    return path.parent == folder or path.parent.resolve() == folder.resolve()


def _range(folder: Path, path: Path) -> SourceRange:
    try:
        status = (folder / path.name).stat()
    except OSError:
        return SourceRange(unit_of(path.name), 0, 0, None, None)
    return SourceRange(unit_of(path.name), 0, status.st_size, status.st_size, modified_ns_of(status))


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []


def _log_offset(offsets: Path) -> int:
    """Number of the source log's entry up to which a batch read."""
    lines = _lines(offsets)
    offset = json.loads(lines[1])  # after the batch's metadata one line for each source: there is one
    return int(offset["logOffset"])


def _logged(folder: Path, last: int) -> Iterator[Path]:
    """The files in the source log's entries up to `last`. Every tenth entry is compact: it repeats all before."""
    compact = [int(path.stem) for path in folder.glob("*.compact") if path.stem.isdecimal()]
    start = max(compact, default=-1)
    logs = [folder / f"{start}.compact"] if compact else []
    logs += [folder / str(number) for number in sorted(_numbers(folder)) if number > start]
    for log in logs:
        for line in _lines(log):
            entry = json.loads(line)
            if entry["batchId"] <= last:
                yield Path(unquote(urlparse(entry["path"]).path))


def _lines(log: Path) -> list[str]:
    version, *lines = log.read_text().splitlines()
    if version != _LOG_VERSION:
        raise ValueError(f"{log} is of version {version!r}, known is {_LOG_VERSION!r}")
    return lines
