"""How soon a connection to PostgreSQL notices that its server was cut off without a word."""

from __future__ import annotations

from typing import Any

LIVENESS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq for every connection that is kept: within half a minute, whether it waits for an answer, is
sending, or is idle. Without them TCP goes on hoping for up to two hours. Local sockets ignore them."""
