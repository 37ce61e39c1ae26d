"""Ports for servers that the verification and the tests stop and restart at the same address."""

from __future__ import annotations

import errno
import functools
import itertools
import random
import socket
from collections.abc import Iterator

#: These, and those of the buses of Redis Clusters, are below the ports that the system gives to outgoing connections:
#: nobody connects to itself, and no connection has the port while its server is away.
PORTS = range(12000, 22000)

#: How many of them belong to one process.
OWN_PORTS = 100

#: How far above its port a node of a Redis Cluster listens to other nodes.
BUS = 10000


def free_port() -> int:
    """A port that nobody listens on at any address, nor on the port of the bus that belongs to it.

    Other processes get other ports from this, until the caller's has ended. Two calls give two ports, also before
    anything listens on the first.
    """
    ports, _ = _own_ports()
    return next(port for port in ports if _is_free(port) and _is_free(port + BUS))


@functools.cache
def _own_ports() -> tuple[Iterator[int], socket.socket]:
    """The ports of this process, in turn, and what says so: a socket that listens on the one before them."""
    firsts = list(range(PORTS.start, PORTS.stop, OWN_PORTS))
    random.shuffle(firsts)
    for first in firsts:
        try:
            reserved = socket.create_server(("127.0.0.1", first))
            return itertools.cycle(range(first + 1, first + OWN_PORTS)), reserved
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise RuntimeError(f"more than {len(firsts)} processes have servers at once")


def _is_free(port: int) -> bool:
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with socket.socket(family) as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True
