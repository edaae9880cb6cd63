"""A schema registry that answers slowly, with too much, or with what is no schema: always told as one outage."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from spark_jobs.errors import SourceAwayError
from spark_jobs.secret_text import SecretText
from spark_jobs.source.records.avro.registry import SchemaRegistry
from tests.schema_registry import Registry

MOST_SENT = 200
PAUSE = 0.05


class Answers:
    """A server that gives one answer to all questions.

    Attributes:
        url: where it answers.
        sent: bytes that it could send of bodies and slow heads.
    """

    def __init__(self) -> None:
        self.url = ""
        self.sent = 0

    @contextmanager
    def giving(self, body: bytes, headers: dict[str, str] | None = None) -> Iterator[Answers]:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    for start in range(0, len(body), 1 << 16):
                        self.wfile.write(body[start : start + (1 << 16)])
                        answers.sent += min(1 << 16, len(body) - start)
                except OSError:  # the client has had enough
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def byte_by_byte(content: bytes) -> Iterator[tuple[str, list[int]]]:
    """A server that sends a byte at a time, `MOST_SENT` at most; its address, and how many it could send."""
    sent: list[int] = []
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                for byte in content[:MOST_SENT]:
                    try:
                        connection.sendall(bytes([byte]))
                    except OSError:
                        return
                    sent.append(byte)
                    if gone.wait(PAUSE):
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", sent
        finally:
            gone.set()
            thread.join()


@pytest.mark.parametrize(
    "content",
    [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000, b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1000],
    ids=["head", "body"],
)
def test_a_registry_that_sends_a_byte_at_a_time_has_one_deadline(content: bytes) -> None:
    with byte_by_byte(content) as (url, sent):
        with pytest.raises(SourceAwayError, match=r"at http://127.* for schema 1: it has not answered within 1 s"):
            SchemaRegistry(url, answer_seconds=1.0).schema(1)
        assert len(sent) < MOST_SENT


def test_an_answer_has_a_bound() -> None:
    spaces = b" " * (32 << 20)
    with Answers().giving(spaces) as answers:
        with pytest.raises(SourceAwayError, match="more than 4 MB, which no schema needs"):
            SchemaRegistry(answers.url).schema(1)
        assert answers.sent < len(spaces)
    with (
        Answers().giving(gzip.compress(spaces), {"Content-Encoding": "gzip"}) as answers,
        pytest.raises(SourceAwayError, match="it answers packed as gzip, which it was not asked for"),
    ):
        SchemaRegistry(answers.url).schema(1)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"schema": ', "Expecting value"),
        (b"\xff", "decode"),
        (b"[]", "its answer holds no schema"),
        (b'{"schema": 5}', "its answer holds no schema"),
        ({"references": [{"x": 1}]}, "refers to something without subject and version"),
        ({"references": [[[]]]}, "refers to something without subject and version"),
        ({"references": [{"subject": ["a"], "version": {}}]}, "refers to something without subject and version"),
        ({"references": {"a": 1}}, "what its schema refers to is no list"),
        ({"references": [{"subject": "a", "version": 1}]}, "refers to itself, or to more than 100 others"),
        (
            {"references": [{"subject": str(number), "version": 1} for number in range(200)]},
            "refers to itself, or to more than 100 others",
        ),
    ],
)
def test_an_answer_that_is_no_schema_is_told_as_an_outage(answer: bytes | dict[str, Any], told: str) -> None:
    body = answer if isinstance(answer, bytes) else json.dumps({"schema": '"int"', **answer}).encode()
    with Answers().giving(body) as answers, pytest.raises(SourceAwayError) as raised:
        SchemaRegistry(answers.url).schema(7)
    assert told in str(raised.value)
    assert f"at {answers.url} can't be asked for schema 7" in str(raised.value)
    assert "source.avro.registry" in str(raised.value)


def test_proxies_of_the_environment_see_neither_questions_nor_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    guarded = Registry(("reader", "secret"))
    guarded.register(1, "int")
    with guarded.answering():
        assert SchemaRegistry(guarded.url, "reader", SecretText("secret")).schema(1) == ('"int"', [])


@pytest.mark.parametrize(
    ("url", "user", "told"),
    [
        ("http://registry:8081", "reader", True),
        ("http://10.0.0.7:8081", "reader", True),
        ("http://registry:8081", None, False),
        ("https://registry", "reader", False),
        ("http://localhost:8081", "reader", False),
        ("http://[::1]:8081", "reader", False),
    ],
)
def test_a_password_without_tls_is_noticed(url: str, user: str | None, told: bool) -> None:
    assert SchemaRegistry(url, user, SecretText("x")).tells_password_to_others == told
