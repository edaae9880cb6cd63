"""Which files a script has left to load: those without a marker, which is committed together with their facts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg2

MARK = "INSERT INTO bench.loaded_file (name) VALUES (%s)"
_FILES_AT_ONCE = 4  # 400,000 events: more makes nothing faster, and takes more memory


def groups_to_load(warehouse_url: str, files: Sequence[Path], at_once: int = _FILES_AT_ONCE) -> list[list[Path]]:
    """The files without a marker, in their order, as many together as are loaded in a transaction."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM bench.loaded_file")
        marked = {name for (name,) in cursor.fetchall()}
    left = [file for file in files if file.name not in marked]
    return [left[first : first + at_once] for first in range(0, len(left), at_once)]
