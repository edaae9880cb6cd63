"""What stands in a file of hot tuples: an Arrow IPC stream of key columns, fetched columns and frequencies.

Origin, time and the snapshot of R are metadata of its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.files.checked import FileKind, checked_content, damaged, with_header
from spark_jobs.hot_set.cache_files.cache_version import CacheVersion
from spark_jobs.relation.arrow_buffers import single_array
from spark_jobs.relation.key_kinds import KeyKind
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.stored_keys import stored_keys

HOT_TUPLES = FileKind(b"FRESHETH", 1, "file of hot tuples")

_KEY, _FETCHED, _FREQUENCY = "key.", "fetched.", "frequency"


def pack(version: CacheVersion, number: int) -> Iterator[Any]:
    """The file of a version under this number, as bytes-like parts. O(bytes)."""
    sink = pa.BufferOutputStream()
    table = _table(version)
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return with_header(HOT_TUPLES, number, sink.getvalue())


def unpack(path: Path, number: int) -> CacheVersion:
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
        raise damaged(path, number, f"its content can't be read ({error})") from error


def _table(version: CacheVersion) -> pa.Table:
    rows = version.rows
    arrays: dict[str, Any] = {f"{_KEY}{i}": column for i, column in enumerate(stored_keys(rows.keys))}
    arrays |= {_FETCHED + name: rows.columns[name] for name in rows.columns.column_names}
    arrays[_FREQUENCY] = pa.array(np.asarray(version.frequencies, np.float32))
    described = {
        "kinds": ",".join(kind.value for kind in rows.keys.kinds),
        "origin": version.origin,
        "built_at": version.built_at.isoformat(),
        "noticed": version.noticed or "",
    }
    return pa.table(arrays).combine_chunks().replace_schema_metadata(described)


def _version(table: pa.Table, number: int) -> CacheVersion:
    described = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    kinds = tuple(KeyKind(kind) for kind in described["kinds"].split(","))
    keys = KeyColumns.encode([table[f"{_KEY}{i}"] for i in range(len(kinds))], kinds)
    fetched = [name for name in table.column_names if name.startswith(_FETCHED)]
    columns = table.select(fetched).rename_columns([name.removeprefix(_FETCHED) for name in fetched])
    return CacheVersion(
        version=number,
        origin="rebuilt" if described["origin"] == "rebuilt" else "learned",
        built_at=datetime.fromisoformat(described["built_at"]),
        rows=RelationRows(keys, columns.replace_schema_metadata(None)),
        frequencies=single_array(table[_FREQUENCY]).to_numpy(),
        noticed=described["noticed"] or None,
    )
