"""What is known of a copy of R before any page of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.files.checked import CACHE_ADVICE, FileKind, checked_content, damaged, with_header
from spark_jobs.relation.key_kinds import KeyKind
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.stored_keys import stored_keys

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
