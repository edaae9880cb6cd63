"""Where the files of a lookup lie: a folder that belongs to its relation as it is fetched, in one warehouse."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from psycopg2 import extensions

from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import warehouse_identity

# A definition may be changed back, and a driver may still run with the former one.
_UNUSED_SECONDS = 7 * 86_400.0
_FINGERPRINT_DIGITS = 12
_LONGEST_NAME = 60


@dataclass(frozen=True)
class LookupFolder:
    """The folder of one lookup.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def hot_set(self) -> Path:
        """Folder of the hot set's versions, for HotSetFiles."""
        return self.path / "hot"

    @property
    def copies(self) -> Path:
        """Folder of the copies of R, for a CopyStore."""
        return self.path / "snapshots"


def lookup_folder(
    home: Home, pipeline: str, position: int, spec: RelationSpec, connection: extensions.connection
) -> LookupFolder:
    """The folder of a lookup's files. Another key, other fetched columns or another warehouse have another one.

    Args:
        home: the installation.
        pipeline: the pipeline's name.
        position: number of the lookup in the pipeline, from 0.
        spec: its relation.
        connection: to the warehouse.
    """
    identity = warehouse_identity(connection)
    read = (spec.schema, spec.table, spec.key, spec.fetched, spec.validity)
    fingerprint = hashlib.sha256(repr((identity, read)).encode()).hexdigest()[:_FINGERPRINT_DIGITS]
    shown = re.sub(r"[^\w.]", "_", spec.relation)[:_LONGEST_NAME]  # a relation may have any characters in its name
    return LookupFolder(home.caches(pipeline) / f"{position}-{shown}-{fingerprint}")


def remove_unused(home: Home, pipeline: str, used: Collection[LookupFolder]) -> None:
    """Remove the folders of lookups that the pipeline no longer has, once they have been left alone for a week."""
    paths = {folder.path for folder in used}
    oldest = time.time() - _UNUSED_SECONDS
    for path in home.caches(pipeline).glob("*"):
        if path not in paths and max(part.stat().st_mtime for part in (path, *path.glob("*"))) < oldest:
            shutil.rmtree(path, ignore_errors=True)
