"""Reads Spark's log of a file source: which landed files a micro-batch read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse


def batch_files(checkpoint: Path, spark_batch: int) -> Iterator[Path]:
    """The files of one micro-batch, as far as the log still lists them.

    Args:
        checkpoint: the query's checkpoint folder.
        spark_batch: Spark's number of the batch.
    """
    first, last = _log_offset(checkpoint, spark_batch - 1) + 1, _log_offset(checkpoint, spark_batch)
    for number in range(first, last + 1):
        yield from _logged_files(checkpoint / "sources" / "0", number)


def total_bytes(files: Iterable[Path]) -> int:
    """Total size of files, in bytes; those that are gone count nothing."""
    return sum(path.stat().st_size for path in files if path.exists())


def mean_landing(files: Iterable[Path]) -> float | None:
    """When files landed, in seconds since 1970, on average over their bytes; None if all are gone or empty."""
    found = [path.stat() for path in files if path.exists()]
    size = sum(each.st_size for each in found)
    return sum(each.st_mtime * each.st_size for each in found) / size if size else None


def _log_offset(checkpoint: Path, spark_batch: int) -> int:
    """Number of the last log file that a batch read; -1 before the first."""
    planned = checkpoint / "offsets" / str(spark_batch)
    if not planned.exists():
        return -1
    return int(json.loads(planned.read_text().splitlines()[-1])["logOffset"])


def _logged_files(folder: Path, number: int) -> Iterator[Path]:
    # Every tenth log file is a compact one: it repeats the entries of all before it.
    for log in (folder / str(number), folder / f"{number}.compact"):
        if log.exists():
            for line in log.read_text().splitlines()[1:]:  # the first line is the log's version
                entry = json.loads(line)
                if entry["batchId"] == number:
                    yield Path(unquote(urlparse(entry["path"]).path))
            return
