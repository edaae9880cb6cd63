"""Looks for what of a batch ends the processes that read it, and sets it aside, so that it costs itself only."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from psycopg2 import extensions

from spark_jobs.control.fencing import require_epoch
from spark_jobs.driver.intake import Trial
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.poison import PoisonSpan, note_poison, poison_of
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.shown_text import shown_text
from spark_jobs.stages.trial_process import TrialRequest

_log = logging.getLogger(__name__)

_SEARCH_SECONDS = 120.0
# Until it is ready; and to unpack a file, which it does once by itself.
_GRACE_SECONDS = 60.0
# Blocks of lines are read in some hundred megabytes, whatever the file.
_LEAST_MEMORY = 1 << 30
_CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
_MOST_SAID = 2_000


def search(pipeline: str, trials: Sequence[Trial], parts: int) -> list[list[PoisonSpan]]:
    """What of each slice ends the process that reads it, found by processes of this host.

    Args:
        pipeline: its name, for the log.
        trials: the slices.
        parts: tasks that share the memory of a host.
    """
    _log.warning("%s: the batch has ended its processes twice: what it reads is tried in processes apart", pipeline)
    request = pickle.dumps(TrialRequest(trials, _memory_of_a_try(parts), _SEARCH_SECONDS))
    # Modules are found where this process finds them, and nowhere else.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "spark_jobs.stages.trial_process"],
            input=request,
            capture_output=True,
            check=True,
            timeout=_SEARCH_SECONDS + _GRACE_SECONDS,
            env=environment,
        )
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", None) or b""
        shown = shown_text(said[-_MOST_SAID:].decode(errors="replace"))
        _log.error("%s: the search came to no end: %s %s", pipeline, type(error).__name__, shown)
        return [[] for _ in trials]
    return [list(poison_of(each)) for each in json.loads(done.stdout)]


def set_aside(
    connection: extensions.connection,
    pipeline: str,
    epoch: int,
    batch: OpenBatch,
    found: Mapping[int, Sequence[PoisonSpan]],
) -> OpenBatch | None:
    """Note in the ledger what was found, before the batch is tried again; one transaction.

    Args:
        connection: the driver's, not in a transaction.
        pipeline: its name.
        epoch: the driver's epoch.
        batch: the open batch.
        found: what of its ranges, by their numbers.

    Returns:
        the batch as it is to be read now; None where nothing was found.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    if not any(found.values()):
        _log.warning(
            "%s: batch %d: no record of it ends the process that reads it; the batch is tried again as it is",
            pipeline,
            batch.batch_no,
        )
        return None
    ranges = [replace(each, poison=(*each.poison, *found.get(number, ()))) for number, each in enumerate(batch.ranges)]
    with connection, connection.cursor() as cursor:
        require_epoch(cursor, pipeline, epoch)
        note_poison(cursor, batch.batch_no, [each.poison for each in ranges])
    for number, spans in found.items():
        for span in spans:
            _log.warning("%s: batch %d: %s", pipeline, batch.batch_no, _told(batch.ranges[number], span))
    return batch._replace(ranges=ranges)


def _told(planned: SourceRange, span: PoisonSpan) -> str:
    unit = shown_text(planned.unit)
    if span.is_of_file:
        return f"{unit} is set aside: reading it ended the process that read it ({span.how})"
    where = f"at {span.first:,}" if span.last - span.first == 1 else f"from {span.first:,} to {span.last:,}"
    return f"{unit}: what is {where} is not decoded, but held as rejected: {span.reason}"


def _memory_of_a_try(parts: int) -> int:
    """Bytes that a process may have: half of what each task has of this machine, or of the container."""
    most = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # there is no container, or no bound: "max"
        most = min(most, int(_CONTAINER_MEMORY.read_text()))
    return max(most // (2 * parts), _LEAST_MEMORY)
