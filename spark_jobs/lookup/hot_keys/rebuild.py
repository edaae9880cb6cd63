"""The job that rebuilds what a pipeline's lookups hold of R: hot sets and local copies, lookup by lookup."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from psycopg2 import extensions

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup, PipelineDefinition
from spark_jobs.errors import FreshetError, SchemaMismatchError
from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.changes.unnoticed import lasting_snapshot
from spark_jobs.lookup.hot_keys.cache_table import note_rebuilt
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles, HotSetVersion
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, frequencies_of, hot_tuples_within
from spark_jobs.lookup.hot_keys.whole_loading import read_whole
from spark_jobs.lookup.local_copy.build import build_copy
from spark_jobs.lookup.local_copy.copy_files import CopyManifest
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.lookup_folder import LookupFolder, lookup_folder, remove_unused
from spark_jobs.lookup.planning.memory import (
    back_stage_bytes,
    front_stage_bytes,
    page_rows_allowed,
    page_rows_within,
    scan_refusal,
)
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.read_limit import LimitedRelation, ReadLimit, read_limit_of
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.secret_text import SecretText
from spark_jobs.settings import Home
from spark_jobs.task_errors import cause_of
from spark_jobs.warehouse.connection import connect

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

# A snapshot's own pages are small, so that lookups read little that they do not want; a back stage joins some of them.
_LARGEST_STORED_PAGE_ROWS = 500
# More parts than cores: some keys' ranges take longer to read than others.
_PARTS_PER_CORE = 4

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RebuildRequest:
    """What is to be rebuilt.

    Attributes:
        relations: the relations whose lookups are; none: all.
        hot_tuples: whether the front stages' tuples are.
        snapshots: whether the snapshots of relations with `read: snapshot` are.
    """

    relations: tuple[str, ...] = ()
    hot_tuples: bool = True
    snapshots: bool = True


@dataclass(frozen=True)
class _CachedLookup:
    """A lookup, its number in the pipeline, and the folder of its files."""

    position: int
    lookup: Lookup
    spec: RelationSpec
    folder: LookupFolder


class Rebuild:
    """Rebuilds the caches of one pipeline, beside its running stream or without one.

    Args:
        definition: the pipeline.
        home: the installation.
        warehouse_url: libpq URL of the warehouse.
        describe: describes the relations of its lookups, in their order.
        make_context: makes the SparkContext; called only if there is something to do.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        home: Home,
        warehouse_url: str,
        describe: Callable[[extensions.connection], Sequence[RelationSpec]],
        make_context: Callable[[], SparkContext],
    ) -> None:
        self._definition = definition
        self._home = home
        self._url = SecretText(warehouse_url)
        self._describe = describe
        self._make_context = make_context

    def run(self, request: RebuildRequest) -> Iterator[str]:
        """Rebuild, and say of each lookup what became of it: version, tuples, bytes, seconds.

        Raises:
            SchemaMismatchError: a relation does not fit the pipeline, or can't be read by pages for its snapshot.
            FreshetError: a relation is none of the pipeline's, the disk is full, or another rebuild is at work.
            WarehouseUnavailableError: the warehouse does not answer.
        """
        self._check_relations(request.relations)
        with closing(connect(self._url, application_name=f"freshet rebuild {self._definition.name}")) as connection:
            lookups = self._lookups(connection)
            remove_unused(self._home, self._definition.name, [each.folder for each in lookups])
            chosen = [each for each in lookups if each.lookup.relation in (request.relations or [each.lookup.relation])]
            # What changes from now on is noted, so that a driver that takes a version over knows what it lacks.
            outcomes = watch_relations(connection, [each.lookup for each in chosen])
            for each in chosen:
                noted = outcomes[each.lookup.relation].refusal is None
                yield from self._rebuild(connection, each, request, noted=noted)

    def _check_relations(self, chosen: Sequence[str]) -> None:
        known = [lookup.relation for lookup in self._definition.lookups]
        unknown = [relation for relation in chosen if relation not in known]
        if unknown:
            raise FreshetError(
                f"{', '.join(unknown)}: no lookup of pipeline {self._definition.name} has this relation. "
                f"Its relations: {', '.join(known) or 'none'}."
            )

    def _lookups(self, connection: extensions.connection) -> list[_CachedLookup]:
        name = self._definition.name
        relations = self._describe(connection)
        with connection:
            return [
                _CachedLookup(position, lookup, spec, lookup_folder(self._home, name, position, spec, connection))
                for position, (lookup, spec) in enumerate(zip(self._definition.lookups, relations, strict=True))
            ]

    def _rebuild(
        self, connection: extensions.connection, cached: _CachedLookup, request: RebuildRequest, *, noted: bool
    ) -> Iterator[str]:
        version = manifest = None
        of_hot_tuples = request.hot_tuples and front_stage_bytes(cached.lookup) > 0
        of_snapshot = request.snapshots and cached.lookup.read == "snapshot"
        if not of_hot_tuples and not of_snapshot:
            yield f"{cached.spec.relation}: nothing to rebuild"
        if of_hot_tuples:
            version, said = self._hot_tuples(connection, cached, noted=noted)
            yield f"{cached.spec.relation}: {said}"
        if of_snapshot:
            manifest, said = self._snapshot(connection, cached)
            yield f"{cached.spec.relation}: {said}"
        if version is not None or manifest is not None:
            note_rebuilt(connection, self._definition.name, cached.position, cached.lookup, version, manifest)

    def _hot_tuples(
        self, connection: extensions.connection, cached: _CachedLookup, *, noted: bool
    ) -> tuple[HotSetVersion | None, str]:
        started = time.perf_counter()
        store = HotSetFiles(cached.folder.hot_set)
        whole = self._whole(cached) if noted else None  # a driver could not keep it whole otherwise
        if whole is not None:
            written = replace(whole, version=store.write(whole))
            return written, (
                f"version {written.version} of the hot tuples: all {len(written.rows):,} tuples, "
                f"{HotTuples.bytes_of(written.rows):,} bytes, {time.perf_counter() - started:.1f} s"
            )
        recorded, refused = store.newest_sound()
        for error in refused:
            _log.warning("%s", error)
        if recorded is None:
            return None, "no frequencies have been recorded yet, so the hot tuples stay as they are"
        noticed = _noticed(connection)
        cores = self._make_context().defaultParallelism
        rebuilt = _rebuilt_hot_set(
            recorded,
            RereadTask(self._url, cached.spec, _limit(cached, cores)),
            noticed,
            memory_bytes=front_stage_bytes(cached.lookup),
            parts=cores,
            reread=self._on_spark,
        )
        written = replace(rebuilt, version=store.write(rebuilt))
        return written, (
            f"version {written.version} of the hot tuples: {len(written.rows):,} tuples, "
            f"{written.rows.nbytes:,} bytes, from the frequencies of version {recorded.version} ({recorded.origin}), "
            f"{time.perf_counter() - started:.1f} s"
        )

    def _whole(self, cached: _CachedLookup) -> HotSetVersion | None:
        """All of R, where it fits, and a driver would read it whole."""
        memory_bytes, spec = front_stage_bytes(cached.lookup), cached.spec
        refusal = scan_refusal(cached.lookup, spec.row_count)
        if refusal is not None or HotTuples.bytes_for(spec.row_count, spec) > memory_bytes:
            return None
        limit = _limit(cached, 1)
        with closing(connect(self._url, application_name=f"freshet scan of {spec.relation}")) as connection:
            found = read_whole(connection, spec, memory_bytes, limit() if limit else None)
        if found is None:
            return None
        rows, noticed = found
        return HotSetVersion(
            1, "rebuilt", datetime.now(UTC), rows, np.zeros(len(rows), np.float32), noticed, whole=True
        )

    def _snapshot(self, connection: extensions.connection, cached: _CachedLookup) -> tuple[CopyManifest, str]:
        spec, lookup = cached.spec, cached.lookup
        if spec.page_refusal is not None:
            raise SchemaMismatchError(f"{spec.relation} can't be read by pages, as a snapshot is. {spec.page_refusal}")
        started = time.perf_counter()
        built_at = datetime.now(UTC)
        noticed = _noticed(connection)
        cores = self._make_context().defaultParallelism
        fitting = min(page_rows_within(spec, back_stage_bytes(lookup) // cores), _LARGEST_STORED_PAGE_ROWS)
        manifest = build_copy(
            CopyStore(cached.folder.copies),
            self._url,
            spec,
            noticed,
            built_at,
            page_rows=page_rows_allowed(fitting, _task_limit(lookup, cores)),
            parts=cores * _PARTS_PER_CORE,
            run=lambda task, count: self._on_spark(task, list(range(count))),
            limit=_limit(cached, cores),
        )
        seconds = time.perf_counter() - started
        return manifest, (
            f"snapshot {manifest.version}: {manifest.row_count:,} tuples, {manifest.content_bytes:,} bytes, "
            f"{seconds:.1f} s ({manifest.row_count / seconds:,.0f} tuples/s, "
            f"{manifest.content_bytes / seconds / 1e6:,.1f} MB/s)"
        )

    def _on_spark(self, task: Callable[[Argument], Result], arguments: list[Argument]) -> list[Result]:
        """The results of a task for each argument, each in a Spark task of its own."""
        from py4j.protocol import Py4JJavaError

        if not arguments:
            return []
        spark = self._make_context()
        try:
            return spark.parallelize(arguments, len(arguments)).map(task).collect()
        except Py4JJavaError as error:
            raise FreshetError(cause_of(error)) from error


def _task_limit(lookup: Lookup, cores: int) -> float | None:
    """A task's share of the lookup's read limit: as many tasks run at a time as there are cores."""
    return lookup.read_limit / cores if lookup.read_limit else None


def _limit(cached: _CachedLookup, cores: int) -> Callable[[], ReadLimit] | None:
    """Gives the limit of a process that runs tasks. A task's own one would let its first read begin at once."""
    rate = _task_limit(cached.lookup, cores)
    return None if rate is None else partial(read_limit_of, (cached.position, cached.spec.relation), rate)


def _noticed(connection: extensions.connection) -> str:
    """The snapshot as of now, for a file; the transaction ends, so that the next one is newer."""
    return lasting_snapshot(connection)


# A statement for more keys takes more of the server's memory at once.
_KEYS_AT_ONCE = 20_000


@dataclass(frozen=True)
class RereadTask:
    """Reads tuples of R; called where a task runs. Pickles.

    Attributes:
        url: libpq URL of the warehouse.
        spec: R.
        limit: gives the limit of what one process may read, which all tasks in it share; None: there is none.
    """

    url: SecretText
    spec: RelationSpec
    limit: Callable[[], ReadLimit] | None

    def __call__(self, keys: KeyColumns) -> RelationRows:
        """The tuples of R that have these keys now; those that have vanished are left out."""
        relation = LimitedRelation(LiveRelation(self.url, self.spec), self.limit() if self.limit else None)
        return relation.rows_of_keys(keys, relation.most_tuples or max(len(keys), 1))


def _rebuilt_hot_set(
    recorded: HotSetVersion,
    task: RereadTask,
    noticed: str,
    *,
    memory_bytes: int,
    parts: int,
    reread: Callable[[RereadTask, list[KeyColumns]], list[RelationRows]],
) -> HotSetVersion:
    """The most frequent tuples that fit a front stage, as R has them now.

    Args:
        recorded: tuples with the frequencies that were recorded, any number.
        task: reads them.
        noticed: pg_snapshot as text, taken before: what changes after this counts as changed since.
        memory_bytes: memory of the front stage.
        parts: tasks that share the reading; each reads a range of the keys.
        reread: calls the task for each of several parts of the keys, in any order and place.

    Returns:
        a version like the recorded one, the most frequent tuple first. Its number is the recorded one's.
    """
    spec = task.spec
    capacity = hot_tuples_within(memory_bytes, spec)
    chosen = np.argsort(-recorded.frequencies, kind="stable")[:capacity]
    keys, frequencies = recorded.rows.keys.take(chosen), recorded.frequencies[chosen]
    found = RelationRows.concatenate([RelationRows.empty(spec), *reread(task, _ranges(keys, parts))])
    found_frequencies = frequencies_of(found.keys, keys, frequencies)
    order = np.argsort(-found_frequencies, kind="stable")
    return HotSetVersion(
        version=recorded.version,
        origin="rebuilt",
        built_at=datetime.now(UTC),
        rows=found.take(order),
        frequencies=found_frequencies[order],
        noticed=noticed,
    )


def _ranges(keys: KeyColumns, parts: int) -> list[KeyColumns]:
    """The keys in contiguous ranges of about equal size, so that each task reads a part of the index of its own."""
    ordered = keys.in_order()
    count = max(parts, -(-len(keys) // _KEYS_AT_ONCE))
    return [ordered.take(some) for some in np.array_split(np.arange(len(keys)), count) if len(some)]
