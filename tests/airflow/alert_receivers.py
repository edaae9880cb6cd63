"""A mail server and a webhook of the tests' own: real sockets that remember what they were sent."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Webhook(HTTPServer):
    """Answers each POST with the next of `answers`, then with 204.

    Attributes:
        received: headers and JSON body of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WebhookRequest)
        self.answers: list[int] = []
        self.received: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.paths: list[str] = []


class _WebhookRequest(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), json.loads(body)))
        self.server.paths.append(self.path)
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class MailServer(socketserver.TCPServer):
    """Takes every mail.

    Attributes:
        mails: addressees and text of each.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _MailSession)
        self.mails: list[tuple[list[str], str]] = []


class _MailSession(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        addressees: list[str] = []
        while line := self.rfile.readline().decode().strip():
            command = line.split(maxsplit=1)[0].upper()
            if command == "RCPT":
                addressees.append(line.partition("<")[2].partition(">")[0])
            if command == "DATA":
                self._say("354 go on")
                text = b"".join(iter(self.rfile.readline, b".\r\n")).decode()
                self.server.mails.append((addressees, text))
            self._say("221 bye" if command == "QUIT" else "250 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """The server, serving from a thread until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
