"""A schema registry on loopback: what Confluent's answers to the questions of clients that read, over real HTTP."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

_UNKNOWN = 40403


class Registry:
    """Schemas by id.

    Attributes:
        url: where it answers, while it is there.
        asked: paths that it was asked for.
    """

    def __init__(self, credentials: tuple[str, str] | None = None) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}
        self._wanted = None
        if credentials is not None:
            self._wanted = "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
        self._port = 0
        self.url = ""
        self.asked: list[str] = []

    def register(self, schema_id: int, schema: Any, references: list[dict[str, Any]] | None = None) -> None:
        self._schemas[f"/schemas/ids/{schema_id}"] = {"schema": json.dumps(schema), "references": references or []}

    def register_subject(self, subject: str, version: int, schema: Any) -> None:
        """Register a version that was deleted softly since: it is there for those who ask for such ones, too."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        self._schemas[path] = {"schema": json.dumps(schema)}

    @contextmanager
    def answering(self) -> Iterator[Registry]:
        """Have it answer for the time of the block, always at the same address."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, content = registry.answer(self.path, self.headers.get("Authorization"))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = server.server_port
        self.url = f"http://127.0.0.1:{self._port}"
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        if authorization != self._wanted:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if path not in self._schemas:
            return 404, {"error_code": _UNKNOWN, "message": "Schema not found"}
        return 200, self._schemas[path]


def confluent(schema_id: int, record: bytes) -> bytes:
    """A record in Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + record
