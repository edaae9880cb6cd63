"""A relation of PostgreSQL as it was at one time, in local files: any key, any columns, page by page.

For production; the snapshots next door (`relation.snapshot`) hold made-up tuples of fixed size for experiments, and
are read past the operating system's cache. These are meant to be served from it.

    <folder>/0000000007/manifest       what the version holds: fences, place and checksum of each page
    <folder>/0000000007/part-00003...  pages of a range of R's keys, written by one task
    <folder>/building/                 the next version, until its manifest is written: then it is renamed

| file | what it holds |
|---|---|
| manifest | SnapshotManifest: what is known of a version before any page is read |
| page_files | pages written to parts, and read from them |
| part | PartTask: reads one part from PostgreSQL and writes it |
| build | build_snapshot: a whole version, its parts in parallel |
| store | SnapshotStore: the versions of one relation; a new one takes the old one's place at once |
| relation | PostgresSnapshot: a version as the joins see it; a damaged page is read from PostgreSQL instead |
| changed_tuples | SnapshotWithChanges: tuples that have changed since are read from PostgreSQL |
"""

from spark_jobs.relation.postgres_snapshot.build import build_snapshot
from spark_jobs.relation.postgres_snapshot.changed_tuples import SnapshotWithChanges
from spark_jobs.relation.postgres_snapshot.manifest import SnapshotManifest
from spark_jobs.relation.postgres_snapshot.relation import PostgresSnapshot
from spark_jobs.relation.postgres_snapshot.store import SnapshotStore

__all__ = [
    "PostgresSnapshot",
    "SnapshotManifest",
    "SnapshotStore",
    "SnapshotWithChanges",
    "build_snapshot",
]
