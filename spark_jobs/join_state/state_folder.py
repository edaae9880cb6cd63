"""The folder of a bucket's state: one writer at a time, and which files make which version.

    state.json            what the state was made for
    version.12            the segments of version 12, which of their tuples are in a result, how far each stream is
    segment.3, ...        tuples (spark_jobs.join_state.segment)
    lock                  held by the process that writes

A version is there when its record is, which is written after all that it names.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.durable_files import (
    WRITING,
    FileKind,
    checked_content,
    with_header,
    write_all_durably,
    write_durably,
)
from spark_jobs.durations import written_duration
from spark_jobs.errors import CacheDamagedError, PipelineDefinitionError, StateDamagedError, StateInUseError
from spark_jobs.join_state.segment import SEGMENT
from spark_jobs.join_state.segment import path_of as segment_path
from spark_jobs.join_state.spill_files import STATE_ADVICE

Flags = NDArray[np.bool_]

_VERSION = FileKind(b"FRSHVRS\0", 1, "record of a bucket's version", STATE_ADVICE)
_MADE_FOR = "state.json"
_RETRY_SECONDS = 0.05
# Where a definition says what a state is made for.
_KEYS = {"window": "join.window", "predicate": "join.match", "punctuations": "join.punctuations"}

_WINDOW = re.compile(r"(?P<kind>Sliding|Fixed)Window\(length=(?P<length>\d+)\)")
_BAND = re.compile(r"Band\(width=(?P<width>\d+)\)")
_PUNCTUATION = re.compile(
    r"PunctuationRule\(when=(None|'(?P<when>.*)'), count=(None|\((?P<of>\d+), '(?P<column>.*)'\))\)"
)


class FolderLock:
    """Keeps other processes from writing to a folder, until `release` or the end of the process.

    Args:
        folder: made if it is not there.
        patience_seconds: how long to wait for another holder to end.

    Raises:
        StateInUseError: another process holds it still.
    """

    def __init__(self, folder: Path, patience_seconds: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "lock"
        self._file = self._path.open("a+")
        until = time.monotonic() + patience_seconds
        while not self._taken():
            if time.monotonic() > until:
                holder = self._path.read_text().strip() or "unknown"
                self._file.close()
                raise StateInUseError(
                    f"{folder} is held by process {holder}: one process at a time writes a bucket's state. If that is "
                    "the worker of a driver that was replaced, end it (it can't commit any more), then try again."
                )
            time.sleep(_RETRY_SECONDS)
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def is_in_place(self) -> bool:
        """Whether the folder is still the one that was locked, and neither removed nor replaced."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._file.fileno()))

    def release(self) -> None:
        """Let others write."""
        self._file.close()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class SegmentRecord(NamedTuple):
    """What a version says of a segment of n tuples.

    Attributes:
        number: of its file.
        joined: bool, shape (n,): which are in a result.
        purged: bool, shape (n,): which have left before their time.
    """

    number: int
    joined: Flags
    purged: Flags


class VersionRecord:
    """What makes a version.

    Args:
        reached: the least start that each stream still brings.
        next_ids: the id of the next tuple, of each of the lists of `segments`.
        segments: for each stream its files, oldest first; what is kept of purged tuples and of punctuations, after
            those of all streams, in the same way.
        next_segment: number of the next file.
    """

    def __init__(
        self, reached: list[int], next_ids: list[int], segments: list[list[SegmentRecord]], next_segment: int
    ) -> None:
        self.reached = reached
        self.next_ids = next_ids
        self.segments = segments
        self.next_segment = next_segment

    @property
    def files(self) -> frozenset[int]:
        """The numbers of all segments."""
        return frozenset(segment.number for segments in self.segments for segment in segments)

    def packed(self) -> pa.Buffer:
        """As bytes: JSON in a line; then by segment a bit a tuple unless all are joined, and one if any is purged."""
        listed: list[list[tuple[int, int, bool, bool]]] = []
        bits = []
        for segments in self.segments:
            listed.append([])
            for number, joined, purged in segments:
                all_joined, any_purged = bool(joined.all()), bool(purged.any())
                listed[-1].append((number, len(joined), all_joined, any_purged))
                bits += [] if all_joined else [np.packbits(joined).tobytes()]
                bits += [np.packbits(purged).tobytes()] if any_purged else []
        head = {
            "reached": self.reached,
            "next_ids": self.next_ids,
            "next_segment": self.next_segment,
            "segments": listed,
        }
        return pa.py_buffer(b"\n".join([json.dumps(head).encode(), b"".join(bits)]))

    @classmethod
    def unpacked(cls, content: pa.Buffer) -> VersionRecord:
        """The reverse of `packed`."""
        line, _, bits = content.to_pybytes().partition(b"\n")
        head = json.loads(line)
        at = 0

        def flags(count: int) -> Flags:
            nonlocal at
            packed = np.frombuffer(bits, np.uint8, -(-count // 8), at)
            at += len(packed)
            return np.unpackbits(packed, count=count).view(np.bool_)

        # Versions of before there were punctuations say nothing of either.
        def segment(number: int, count: int, all_joined: bool = False, any_purged: bool = False) -> SegmentRecord:
            joined = np.ones(count, np.bool_) if all_joined else flags(count)
            return SegmentRecord(number, joined, flags(count) if any_purged else np.zeros(count, np.bool_))

        segments = [[segment(*each) for each in listed] for listed in head["segments"]]
        return cls(head["reached"], head["next_ids"], segments, head["next_segment"])


def note_made_for(folder: Path, made_for: Mapping[str, Any]) -> None:
    """Note what a state is made for."""
    write_durably(folder / _MADE_FOR, [json.dumps(made_for, indent=1).encode()])


def expect_made_for(folder: Path, made_for: Mapping[str, Any]) -> None:
    """Compare what a state is to be used for with what it was made for.

    Raises:
        PipelineDefinitionError: they differ.
        StateDamagedError: what it was made for is not noted any more.
    """
    path = folder / _MADE_FOR
    try:
        noted = dict(json.loads(path.read_bytes()))
    except FileNotFoundError as error:
        raise StateDamagedError(f"{path} is missing. {STATE_ADVICE}") from error
    except (ValueError, TypeError) as error:
        raise StateDamagedError(f"{path} is refused: it is not what was written. {STATE_ADVICE}") from error
    stated = {**dict.fromkeys(noted), **json.loads(json.dumps(made_for))}
    changed = [name for name, value in stated.items() if noted.get(name) != value]
    if changed:
        told = "; ".join(
            f"{_KEYS.get(name, name)} was {_as_written(name, noted)}, now {_as_written(name, stated)}"
            for name in changed
        )
        raise PipelineDefinitionError(
            f"{folder} holds a state that was made for other streams: {told}. "
            "Go back to the former definition, or load with the new one under another pipeline name."
        )


def _as_written(name: str, made_for: Mapping[str, Any]) -> str:
    """What a state is made for as a definition has it, where that is told otherwise in its note."""
    value = made_for.get(name)
    if value in (None, "None"):
        return "left out"
    if name == "streams":
        return ", ".join(
            f"{stream}: {{on: {_listed(key)}, event_id: {_listed(event_id)}, event_time: {event_time}}}"
            for stream, key, event_id, event_time in value
        )
    if name == "punctuations":
        streams = [stream for stream, *_ in made_for["streams"]]
        rules = [(stream, rule) for stream, rule in zip(streams, value, strict=True) if rule != "None"]
        return f"{{{', '.join(f'{stream}: {_rule(rule, streams)}' for stream, rule in rules)}}}"
    if name == "predicate":
        how, columns = value
        band = _BAND.fullmatch(how)
        told = f"{{band: {band['width']}}}, in the smallest unit of its values," if band else "overlap"
        return f"{told} of {_listed([', '.join(each) if isinstance(each, list) else str(each) for each in columns])}"
    window = _WINDOW.fullmatch(str(value))
    if window is None:
        return str(value)
    length = written_duration(timedelta(microseconds=int(window["length"])))
    return f"{{fixed: {length}}}" if window["kind"] == "Fixed" else length


def _rule(rule: str, streams: Sequence[str]) -> str:
    punctuation = _PUNCTUATION.fullmatch(rule)
    if punctuation is None:
        return rule
    if punctuation["when"]:
        return f"{{when: {punctuation['when']}}}"
    return f"{{count: {streams[int(punctuation['of'])]}.{punctuation['column']}}}" if punctuation["of"] else "unique"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def versions(folder: Path) -> list[int]:
    """The versions that there are, ascending."""
    return sorted(int(path.suffix[1:]) for path in folder.glob("version.*") if path.suffix[1:].isdigit())


def read_version(folder: Path, version: int) -> VersionRecord:
    """What makes a version.

    Raises:
        StateDamagedError: there is no such version, or its record is damaged.
    """
    path = _path(folder, version)
    try:
        return VersionRecord.unpacked(checked_content(_VERSION, version, path))
    except FileNotFoundError as error:
        there = ", ".join(str(number) for number in versions(folder)[-5:]) or "none"
        raise StateDamagedError(
            f"{folder} has no version {version} to restore; the newest that it has: {there}. {STATE_ADVICE}"
        ) from error
    except CacheDamagedError as error:
        raise StateDamagedError(str(error)) from error


def write_version(folder: Path, version: int, record: VersionRecord, contents: Mapping[int, pa.Buffer]) -> None:
    """Make a version; it is on the disk when this returns.

    Args:
        folder: of the state.
        version: its number.
        record: what makes it.
        contents: of the segments that have no file yet, by their numbers.
    """
    files = {
        segment_path(folder, number): with_header(SEGMENT, number, content) for number, content in contents.items()
    }
    write_all_durably({**files, _path(folder, version): with_header(_VERSION, version, record.packed())})


def remove_versions(folder: Path, *, before: int = 0, after: int | None = None) -> None:
    """Remove the versions before one and after one; the newest first: those up to some number stay whole."""
    for version in reversed(versions(folder)):
        if version < before or (after is not None and version > after):
            _path(folder, version).unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> dict[int, frozenset[int]]:
    """Remove what killed writers have left, and the segments that no version names; which each of them names.

    A version whose record is damaged can't be restored, and names nothing.
    """
    for path in folder.glob(f"*{WRITING}"):
        path.unlink(missing_ok=True)
    named: dict[int, frozenset[int]] = {}
    for version in versions(folder):
        with contextlib.suppress(StateDamagedError):
            named[version] = read_version(folder, version).files
    remove_segments(folder, {number for files in named.values() for number in files})
    return named


def remove_segments(folder: Path, named: set[int]) -> None:
    """Remove all segments but some."""
    for path in folder.glob("segment.*"):
        if path.suffix[1:].isdigit() and int(path.suffix[1:]) not in named:
            path.unlink(missing_ok=True)


def _path(folder: Path, version: int) -> Path:
    return folder / f"version.{version:012}"
