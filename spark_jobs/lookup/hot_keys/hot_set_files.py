"""A lookup's hot set on disk: versions of it, checksummed, each whole or not there.

A driver writes down what it has learned, now and then and at its end; the rebuild job reads it, takes the tuples
anew from R, and writes a version of its own, which the running driver takes over. A driver that starts begins with the
newest sound version.

A file is an Arrow IPC stream of key columns, fetched columns and frequencies; `files.checked` says how damage is found.
Origin, time and the snapshot of R are metadata of its schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.keys.key_columns import KeyColumns, stored_keys
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.durable_files import (
    CACHE_ADVICE,
    WRITING,
    FileKind,
    checked_content,
    damaged,
    exclusive_lock,
    newest_sound_version,
    newest_version,
    with_header,
    write_durably,
)
from spark_jobs.errors import CacheDamagedError, FreshetError
from spark_jobs.lookup.relation.relation_rows import RelationRows

# Versions of each origin: what a driver learns every half minute must not push out a rebuilt version that it is
# about to take over.
KEPT_VERSIONS = 3

_NAME = re.compile(r"hot-(\d{10})\.(learned|rebuilt)")
_LOCK = ".lock"
HOT_TUPLES = FileKind(b"FRESHETH", 1, "file of hot tuples", CACHE_ADVICE)

_KEY, _FETCHED, _FREQUENCY = "key.", "fetched.", "frequency"

Origin = Literal["learned", "rebuilt"]
"""Who wrote a version: a driver, with the tuples as it had read them, or the rebuild job, which has just read them."""


@dataclass(frozen=True, eq=False)
class HotSetVersion:
    """The hot tuples of one lookup at one time.

    Attributes:
        version: its number; the store gives a higher one where another version has it already.
        origin: who wrote it.
        built_at: when, with a time zone.
        rows: the hot tuples of R in slot order, n tuples.
        frequencies: float32, shape (n,), how often each was found lately.
        noticed: pg_snapshot as text: the tuples are at least as new as R was for the transactions visible in it.
            None where that is not known.
        whole: whether they are all of R; frequencies mean nothing then.
    """

    version: int
    origin: Origin
    built_at: datetime
    rows: RelationRows
    frequencies: NDArray[np.float32]
    noticed: str | None = None
    whole: bool = False


class HotSetFiles:
    """Reads and writes versions of a hot set. Any number of processes may do so at once.

    Args:
        folder: theirs alone; made with mode 0700 when the first version is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def versions(self, origin: Origin | None = None) -> list[int]:
        """The numbers of all versions there are, ascending; with an origin, of those only. Nothing is verified."""
        return sorted(number for number, (_, of) in self._files().items() if origin in (None, of))

    def newest(self, after: int = 0, origin: Origin | None = None) -> HotSetVersion | None:
        """The newest version, if its number is above `after`. O(bytes) then, else O(versions).

        Raises:
            CacheDamagedError: that version is refused; its number is the error's `version`.
        """
        return newest_version(lambda: self.versions(origin), self.read, after)

    def newest_sound(
        self, after: int = 0, origin: Origin | None = None
    ) -> tuple[HotSetVersion | None, list[CacheDamagedError]]:
        """The newest version above `after` that is not damaged, and why those above it are refused."""
        return newest_sound_version(lambda: self.versions(origin), self.read, after)

    def read(self, number: int) -> HotSetVersion:
        """Read one version and verify it. O(bytes).

        Raises:
            CacheDamagedError: it is refused.
            FileNotFoundError: there is no such version, or no longer.
        """
        path, _ = self._files().get(number, (None, None))
        if path is None:
            raise FileNotFoundError(f"{self.folder} has no version {number}")
        return _unpack(path, number)

    def write(self, version: HotSetVersion) -> int:
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
                write_durably(self.folder / f"hot-{number:010d}.{version.origin}", _pack(version, number))
                self._remove_outdated(version.origin)
        except OSError as error:
            raise FreshetError(
                f"The hot tuples could not be written into {self.folder}: {error.strerror}. The existing versions "
                "stay in use. Make room on the disk, or let the user that runs Freshet write there."
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


def _pack(version: HotSetVersion, number: int) -> Iterator[Any]:
    """The file of a version under this number, as bytes-like parts. O(bytes)."""
    sink = pa.BufferOutputStream()
    table = _table(version)
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return with_header(HOT_TUPLES, number, sink.getvalue())


def _unpack(path: Path, number: int) -> HotSetVersion:
    """The version in a file. O(bytes); its arrays are read-only.

    Args:
        path: the file.
        number: the number in its name.

    Raises:
        CacheDamagedError: it is no such file, has another format, or is not what was written.
        FileNotFoundError: there is no such file.
    """
    content = checked_content(HOT_TUPLES, number, path)
    try:
        return _version(pa.ipc.open_stream(content).read_all(), number)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise damaged(HOT_TUPLES, path, number, f"its content can't be read ({error})") from error


def _table(version: HotSetVersion) -> pa.Table:
    rows = version.rows
    arrays: dict[str, Any] = {f"{_KEY}{i}": column for i, column in enumerate(stored_keys(rows.keys))}
    arrays |= {_FETCHED + name: rows.columns[name] for name in rows.columns.column_names}
    arrays[_FREQUENCY] = pa.array(np.asarray(version.frequencies, np.float32))
    described = {
        "kinds": ",".join(kind.value for kind in rows.keys.kinds),
        "origin": version.origin,
        "built_at": version.built_at.isoformat(),
        "noticed": version.noticed or "",
        "whole": "yes" if version.whole else "",
    }
    return pa.table(arrays).combine_chunks().replace_schema_metadata(described)


def _version(table: pa.Table, number: int) -> HotSetVersion:
    described = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    kinds = tuple(KeyKind(kind) for kind in described["kinds"].split(","))
    keys = KeyColumns.encode([table[f"{_KEY}{i}"] for i in range(len(kinds))], kinds)
    fetched = [name for name in table.column_names if name.startswith(_FETCHED)]
    columns = table.select(fetched).rename_columns([name.removeprefix(_FETCHED) for name in fetched])
    return HotSetVersion(
        version=number,
        origin="rebuilt" if described["origin"] == "rebuilt" else "learned",
        built_at=datetime.fromisoformat(described["built_at"]),
        rows=RelationRows(keys, columns.replace_schema_metadata(None)),
        frequencies=single_array(table[_FREQUENCY]).to_numpy(),
        noticed=described["noticed"] or None,
        whole=bool(described.get("whole")),
    )
