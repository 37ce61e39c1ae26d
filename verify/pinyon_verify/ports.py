"""Ports for servers that the verification and the tests stop and restart at the same address."""

from __future__ import annotations

import errno
import functools
import itertools
import random
import socket
from collections.abc import Iterator

#: These, and the bus ports of Redis Clusters, are below the system's range for outgoing connections. So no connection
#: takes the port of a server that is away, or connects to itself.
PORTS = range(12000, 22000)

#: How many of them belong to one process.
OWN_PORTS = 100

#: How far above its port a node of a Redis Cluster listens to other nodes.
BUS = 10000


def free_port() -> int:
    """A port that is free on every address, and whose bus port is free too.

    Other processes get other ports from this function until this process ends. Each call returns another port, even
    before a server listens on the first one.

    Raises:
        RuntimeError: this process has none left.
    """
    ports, _ = _own_ports()
    for port in itertools.islice(ports, OWN_PORTS):
        if _is_free(port) and _is_free(port + BUS):
            return port
    raise RuntimeError(f"this process has servers on all of its {OWN_PORTS} ports")


@functools.cache
def _own_ports() -> tuple[Iterator[int], socket.socket]:
    """This process's ports in turn, and the socket that reserves them by listening on the port before them."""
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
            # As servers do. Without it, a port would not be free for a minute after a server closed a connection.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True
