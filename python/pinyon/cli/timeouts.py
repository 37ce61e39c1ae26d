"""The timeouts of clients that a command makes."""

from __future__ import annotations


def connect_timeout_of(timeout: float) -> float:
    """Return how long a connection attempt may take: half of ``--timeout``, which a server may take. In seconds."""
    return timeout / 2
