"""R as a local file of fixed-size tuples, sorted by key: read by page and by key, past the operating system's cache.

| file | what it holds |
|---|---|
| file_format | what stands where in a snapshot, and its checksums |
| writer | streams tuples in key order into a new snapshot, which then takes the old one's place at once |
| direct_file | reads of a file that no cache answers |
| relation | a snapshot as the joins see it |
"""

from spark_jobs.relation.snapshot.relation import SnapshotRelation, open_snapshot
from spark_jobs.relation.snapshot.writer import SnapshotWriter, write_snapshot

__all__ = ["SnapshotRelation", "SnapshotWriter", "open_snapshot", "write_snapshot"]
