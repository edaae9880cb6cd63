"""A TCP proxy before PostgreSQL's socket that loses connections at a chosen moment."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum, auto


class Cut(Enum):
    """When the first connection that commits is lost."""

    BEFORE_COMMIT = auto()  # the server never gets the COMMIT, and notices that the client is gone
    AFTER_COMMIT = auto()  # the server commits, but its answer is lost
    UNNOTICED = auto()  # the server neither gets the COMMIT nor notices: a cable was pulled


class CuttingProxy:
    """Forwards connections to a Unix socket, and cuts the first one that sends COMMIT.

    Args:
        target: path of PostgreSQL's socket.
        cut: when.
    """

    def __init__(self, target: str, cut: Cut) -> None:
        self._target = target
        self._cut = cut
        self.cuts = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut everything."""
        for each in [self._listener, *self._sockets]:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._forward_client, args=(client, server), daemon=True).start()
                threading.Thread(target=self._forward_server, args=(client, server), daemon=True).start()

    def _forward_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if b"COMMIT\0" in data and not self.cuts:
                    self.cuts += 1
                    if self._cut is Cut.AFTER_COMMIT:
                        server.sendall(data)
                        return  # the other direction cuts when the answer is there
                    if self._cut is Cut.BEFORE_COMMIT:
                        server.close()
                    client.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _forward_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if b"C\0\0\0\x0bCOMMIT\0" in data and self._cut is Cut.AFTER_COMMIT and self.cuts == 1:
                    self.cuts += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
