"""The files of a copy of R: parts, whose pages are Arrow record batches, and the manifest, which is read first."""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns, stored_keys
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.durable_files import CACHE_ADVICE, FileKind, checked_content, damaged, sync_folder, with_header
from spark_jobs.lookup.relation.page_index import PageIndex
from spark_jobs.lookup.relation.relation_spec import RelationSpec

MANIFEST = FileKind(b"FRESHETM", 1, "manifest of a snapshot", CACHE_ADVICE)
_KEY = "key."
_PLACES = {"part": np.int32, "offset": np.int64, "size": np.int64, "rows": np.int64, "checksum": np.uint32}


@dataclass(frozen=True, eq=False)
class PagePlaces:
    """Where the pages of a copy lie; all arrays of shape (pages,).

    Attributes:
        part: int32, number of the part that holds the page.
        offset: int64, where it begins there, in bytes.
        size: int64, its bytes.
        rows: int64, rows of R's table on it.
        checksum: uint32, CRC-32 of its bytes.
    """

    part: NDArray[np.int32]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    rows: NDArray[np.int64]
    checksum: NDArray[np.uint32]

    @classmethod
    def concatenate(cls, parts: Sequence[PagePlaces]) -> PagePlaces:
        """The pages of all parts, one after the other; at least one part."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _PLACES))


@dataclass(frozen=True, eq=False)
class CopyManifest:
    """One version of a copy. Pickles by its arrays.

    Attributes:
        folder: where its parts lie.
        version: its number.
        built_at: when its build began, before any of its tuples was read, with a time zone. Its age counts from then
            on, as changes that came meanwhile are among those noted since.
        noticed: pg_snapshot as text, taken before: changes by transactions visible in it are in the copy.
        index: the fences of its pages.
        parts: names of its parts, by number.
        places: where its pages lie.
    """

    folder: Path
    version: int
    built_at: datetime
    noticed: str
    index: PageIndex
    parts: tuple[str, ...]
    places: PagePlaces

    @property
    def row_count(self) -> int:
        """Rows of R's table."""
        return int(self.places.rows.sum())

    @property
    def content_bytes(self) -> int:
        """Size of all pages."""
        return int(self.places.size.sum())

    def pack(self, number: int) -> Iterator[Any]:
        """The manifest's file under this version's number, as bytes-like parts."""
        fences = [pa.concat_arrays([pa.nulls(1, key.type), key]) for key in stored_keys(self.index.fences)]
        arrays: dict[str, Any] = {f"{_KEY}{i}": key for i, key in enumerate(fences)}
        arrays |= {name: pa.array(getattr(self.places, name)) for name in _PLACES}
        described = {
            "kinds": ",".join(kind.value for kind in self.index.fences.kinds),
            "built_at": self.built_at.isoformat(),
            "noticed": self.noticed,
            "page_rows": str(self.index.page_rows),
            "parts": ",".join(self.parts),
        }
        sink = pa.BufferOutputStream()
        table = pa.table(arrays).replace_schema_metadata(described)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return with_header(MANIFEST, number, sink.getvalue())


@dataclass
class CopyInUse:
    """Which copy of R a lookup's batches read.

    Attributes:
        manifest: the one that the batch planned last reads; None: it reads R live.
        refused: why the newest one on disk is not used, and since when; None where it is.
    """

    manifest: CopyManifest | None = None
    refused: tuple[str, datetime] | None = None


def read_manifest(path: Path, number: int) -> CopyManifest:
    """The manifest in a file.

    Args:
        path: the file, in the version's folder.
        number: the version.

    Raises:
        CacheDamagedError: it is not what was written.
        FileNotFoundError: there is none.
    """
    content = checked_content(MANIFEST, number, path)
    try:
        table = pa.ipc.open_stream(content).read_all().combine_chunks()
        described = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        kinds = tuple(KeyKind(kind) for kind in described["kinds"].split(","))
        fences = KeyColumns.encode([table[f"{_KEY}{i}"].slice(1) for i in range(len(kinds))], kinds)
        return CopyManifest(
            folder=path.parent,
            version=number,
            built_at=datetime.fromisoformat(described["built_at"]),
            noticed=described["noticed"],
            index=PageIndex(fences, int(described["page_rows"])),
            parts=tuple(described["parts"].split(",")),
            places=PagePlaces(*(table[name].to_numpy() for name in _PLACES)),
        )
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise damaged(MANIFEST, path, number, f"its content can't be read ({error})") from error


def page_schema(spec: RelationSpec) -> pa.Schema:
    """The columns of a page: those that every read of R returns, by number."""
    return pa.schema([(str(i), column.arrow) for i, column in enumerate(spec.read_types)])


class PartWriter:
    """Writes pages one after the other into a new file of mode 0600, for use in a `with` block.

    Args:
        path: the file; it must not exist. It is removed where the block ends with an error.
        part: the part's number.
        schema: of the pages.
    """

    def __init__(self, path: Path, part: int, schema: pa.Schema) -> None:
        self._path = path
        self._part = part
        self._schema = schema
        self._places: list[tuple[int, int, int, int]] = []
        self._written = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = open(descriptor, "wb")  # noqa: SIM115

    def append(self, columns: Sequence[pa.Array]) -> None:
        """Write the next page.

        Raises:
            OSError: the disk is full or fails.
        """
        batch = pa.record_batch(list(columns), schema=self._schema)
        content = batch.serialize()
        self._file.write(content)
        self._places.append((self._written, content.size, batch.num_rows, zlib.crc32(content)))
        self._written += content.size

    @property
    def places(self) -> PagePlaces:
        """Where the pages lie that were written."""
        offset, size, rows, checksum = np.array(self._places, np.int64).reshape(-1, 4).T
        part = np.full(len(offset), self._part, np.int32)
        return PagePlaces(part, offset, size, rows, checksum.astype(np.uint32))

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            with self._file:
                if kind is None:
                    self._file.flush()
                    os.fsync(self._file.fileno())
                    sync_folder(self._path.parent)
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        if kind is not None:
            self._path.unlink(missing_ok=True)


class PageFiles:
    """Reads pages of a copy. Its files are opened when they are first needed, and closed with their last reader.

    Args:
        manifest: the copy.
        spec: R.
    """

    def __init__(self, manifest: CopyManifest, spec: RelationSpec) -> None:
        self._manifest = manifest
        self._schema = page_schema(spec)
        self._descriptors: dict[int, int] = {}
        self._closing = weakref.finalize(self, _close_all, self._descriptors)

    def read(self, pages: NDArray[np.int64]) -> list[pa.RecordBatch | None]:
        """Read pages; None in the place of one that is damaged or can't be read.

        Args:
            pages: int64, shape (n,), their numbers, ascending. Those that follow each other are read in one go.
        """
        found: list[pa.RecordBatch | None] = []
        for run in self._runs(pages):
            content = self._content(run)
            start = int(self._manifest.places.offset[run.start])
            found += [self._page(number, start, content) for number in run]
        return found

    def close(self) -> None:
        """Close all files."""
        _close_all(self._descriptors)

    def _runs(self, pages: NDArray[np.int64]) -> Iterator[range]:
        """Pages that lie one after the other in the same part."""
        parted = (np.diff(pages) != 1) | (np.diff(self._manifest.places.part[pages]) != 0)
        for start, stop in pairwise([0, *(np.flatnonzero(parted) + 1).tolist(), len(pages)]):
            yield range(int(pages[start]), int(pages[stop - 1]) + 1)

    def _content(self, run: range) -> memoryview:
        """The bytes of pages of one part, which lie one after the other; fewer where they can't be read."""
        places = self._manifest.places
        size = int(places.size[run.start : run.stop].sum())
        try:
            return memoryview(os.pread(self._descriptor(int(places.part[run.start])), size, places.offset[run.start]))
        except OSError:
            return memoryview(b"")

    def _page(self, number: int, start: int, content: memoryview) -> pa.RecordBatch | None:
        places = self._manifest.places
        offset, size = int(places.offset[number]) - start, int(places.size[number])
        page = content[offset : offset + size]
        if len(page) != size or zlib.crc32(page) != places.checksum[number]:
            return None
        return pa.ipc.read_record_batch(pa.py_buffer(page), self._schema)

    def _descriptor(self, part: int) -> int:
        if part not in self._descriptors:
            path = self._manifest.folder / self._manifest.parts[part]
            self._descriptors[part] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[part]


def _close_all(descriptors: dict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])
