"""A kind of source that Freshet has not: a folder that is served over HTTP. All of it stands here, for a test alone."""

from __future__ import annotations

import hashlib
import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from psycopg2 import extensions

from spark_jobs.definition import Source
from spark_jobs.definition.kinds import KindFacts
from spark_jobs.errors import SourceAwayError, SourceRangeChangedError, SourceRangeGoneError
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.ledger.poison import Poison
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.stated_ranges import LedgerRange
from spark_jobs.ledger.unread import Unread
from spark_jobs.settings import Home
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kind import ReadsAgain, SourceKind, SourceNote, SourceStream
from spark_jobs.source.landed_source import SingleSource, TakenRow
from spark_jobs.source.landed_units import AbsentUnit, Fault, LandedUnit, Landing
from spark_jobs.source.record_lines import cut_lines, line_blocks
from spark_jobs.source.records.format import LineFormat
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.source.slices import SourceSlice
from spark_jobs.source.sparing import arrivals_of, decode_sparing


class HttpFacts(KindFacts):
    """What definitions say of it."""

    name = "http"
    key = "url"
    settings = str
    example = "url: http://localhost:8000"
    description = "Address of the folder."
    meaning = "the address of a folder"
    title = "HTTP"
    records = "files that are served"
    bears: Literal["files"] = "files"

    def identity(self, source: Source) -> str:
        return str(source.settings)

    def dataset(self, source: Source, home: Home) -> tuple[str, str]:
        return f"http://{urlsplit(source.settings).netloc}", urlsplit(source.settings).path


HTTP = HttpFacts()


@dataclass(frozen=True)
class ServedFile:
    """A file, which its name and its entity tag identify: the ledger calls it by both."""

    name: str
    etag: str
    size: int
    modified_ns: int

    @property
    def unit(self) -> str:
        return f"{self.name}@{self.etag}"


def listed(url: str) -> list[ServedFile]:
    """The files of the folder, in the order in which they came."""
    try:
        with urlopen(f"{url}/", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError as error:
        raise SourceAwayError(f"{url} does not answer: {error}. The stream waits until it does.") from None
    files = [ServedFile(name, etag, int(size), int(ns)) for name, etag, size, ns in map(str.split, lines)]
    return sorted(files, key=lambda each: (each.modified_ns, each.name))


@dataclass(frozen=True)
class HttpSlice(SourceSlice):
    """A file, whole."""

    range_no: int
    url: str
    etag: str
    first: int
    last: int
    modified_ns: int
    poison: Poison = ()

    @property
    def is_loaded_in_part(self) -> bool:
        return False

    def window(self, first: int, last: int) -> HttpSlice:
        return replace(self, first=first, last=last)

    @property
    def has_one_record(self) -> bool:
        return False


def slice_of(url: str, planned: SourceRange | LedgerRange, number: int, poison: Poison) -> HttpSlice:
    name, _, etag = planned.unit.rpartition("@")
    assert planned.modified_ns is not None
    return HttpSlice(number, f"{url}/{name}", etag, planned.first, planned.last, planned.modified_ns, poison)


class HttpReader:
    def get_ready(self) -> None:
        return None

    def __call__(self, piece: HttpSlice, decoder: RecordDecoder) -> Iterator[Arrivals]:
        form, source = decoder.format, decoder.source
        assert isinstance(form, LineFormat)
        decode = form.line_decoder(source, None)
        try:
            with urlopen(Request(piece.url, headers={"If-Match": piece.etag}), timeout=5) as answer:
                for block in line_blocks(answer.read, 0):
                    records, positions = cut_lines(*block)
                    decoded = decode_sparing(piece.poison, records, positions, source.columns, decode)
                    yield arrivals_of(piece, decoded, records, positions, piece.modified_ns)
        except HTTPError as error:
            changed = error.code == http.client.PRECONDITION_FAILED
            raise (SourceRangeChangedError if changed else SourceRangeGoneError)(f"{piece.url}: {error}") from None


class HttpFiles(SingleSource):
    def __init__(self, url: str) -> None:
        self._url = url
        self._known: set[str] = set()
        self._waiting: list[ServedFile] = []
        self.unread = None

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def resume(self, taken: Callable[[list[str]], Iterable[TakenRow]]) -> None:
        self._waiting = []
        self._known = {unit for unit, *_ in taken([file.unit for file in listed(self._url)])}

    def look(self) -> None:
        self._waiting = [file for file in listed(self._url) if file.unit not in self._known]

    def take(self, most_bytes: int) -> list[SourceRange]:
        taken = []
        while self._waiting and most_bytes > 0:
            file = self._waiting.pop(0)
            self._known.add(file.unit)
            taken.append(SourceRange(file.unit, 0, file.size, file.size, file.modified_ns, kind=HTTP.name))
            most_bytes -= file.size
        left = sum(file.size for file in self._waiting)
        self.unread = Unread(len(self._waiting), left, None, time.monotonic())
        return taken

    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> list[list[HttpSlice]]:
        slices = [slice_of(self._url, each, number, each.poison) for number, each in ranges]
        return [slices[part::parts] for part in range(min(parts, len(slices)))]


@dataclass(frozen=True)
class HttpUnit(LandedUnit):
    unit: str
    size: int
    ranges: Sequence[LedgerRange]
    url: str
    file: ServedFile
    where: ClassVar[str] = "the file"

    @property
    def whole(self) -> HttpSlice:
        file = self.file
        return HttpSlice(0, f"{self.url}/{file.name}", file.etag, 0, file.size, file.modified_ns, self.poison)

    @property
    def arrived(self) -> datetime:
        return datetime.fromtimestamp(self.file.modified_ns / 1e9, UTC)

    def fault(self, error: Exception) -> tuple[Fault, str] | None:
        return ("gone", self.unit) if isinstance(error, SourceRangeGoneError) else None


class HttpLanding(Landing):
    told = "reading what is served"

    def __init__(self, stream: SourceStream, cursor: extensions.cursor) -> None:
        self._stream = stream
        self._cursor = cursor

    def units(self) -> Iterator[LandedUnit | AbsentUnit]:
        stream, url = self._stream, self._stream.source.settings
        there = {stream.prefix + file.unit: file for file in listed(url)}
        for unit, ranges in LedgerRange.by_unit(self._cursor, stream.pipeline, stream.prefix):
            file = there.pop(unit, None)
            yield AbsentUnit(unit, ranges, False) if file is None else HttpUnit(unit, file.size, ranges, url, file)
        for unit, file in there.items():
            yield HttpUnit(unit, file.size, (), url, file)

    def room(self, planned: LedgerRange) -> int | None:
        return None

    def passed_over(self, unit: LandedUnit) -> bool:
        return False


class HttpAgain(ReadsAgain):
    def __init__(self, url: str) -> None:
        self._url = url

    def piece(self, planned: SourceRange) -> tuple[str, HttpSlice]:
        return planned.unit, slice_of(self._url, planned, 0, planned.poison)


class HttpFolders(SourceKind):
    def reader(self, source: Source, pipeline: str, stream: str | None) -> HttpReader:
        return HttpReader()

    def landed(self, stream: SourceStream, positions: PartitionPositions) -> HttpFiles:
        return HttpFiles(stream.source.settings)

    def again(self, stream: SourceStream) -> HttpAgain:
        return HttpAgain(stream.source.settings)

    def landing(self, stream: SourceStream, cursor: extensions.cursor) -> HttpLanding:
        return HttpLanding(stream, cursor)

    def look(self, stream: SourceStream, name: str) -> Iterator[SourceNote]:
        yield SourceNote(f"{name}: {len(listed(stream.source.settings))} files at {stream.source.settings}")


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[str]:
    """Serve files, which may be changed meanwhile; the address. A file's tag is made of its content."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            content = "\n".join(map(_line, files.items())).encode() if not name else files.get(name)
            wanted = self.headers.get("If-Match")
            if content is None:
                self.send_error(http.client.NOT_FOUND)
            elif wanted is not None and wanted != _tag(content):
                self.send_error(http.client.PRECONDITION_FAILED)
            else:
                self.send_response(http.client.OK)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _line(file: tuple[str, bytes]) -> str:
    name, content = file
    return f"{name} {_tag(content)} {len(content)} {10**18}"
