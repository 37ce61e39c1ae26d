"""Raw commands. Each has a connection of its own, so that replies cannot be confused."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

from pinyon.compat.pymemcache.client._arguments import ServerSpec
from pinyon.compat.pymemcache.client._settings import CONNECT_TIMEOUT_OF_NONE, LARGEST_VALUE, TIMEOUT_OF_NONE
from pinyon.compat.pymemcache.exceptions import (
    MemcacheUnexpectedCloseError,
    MemcacheUnknownError,
    error_of_server,
)
from pinyon.errors import ConnectError, Timeout, UsageError


def ask(
    server: ServerSpec,
    request: bytes,
    end: bytes = b"\r\n",
    *,
    timeout: float | None,
    connect_timeout: float | None,
    socket_module: Any,
    tls_context: Any,
) -> bytes:
    """Send a request. Return the reply, without the ``end`` that marks its end.

    ``timeout``: seconds from the request to the end of the reply.
    """
    about: dict[str, Any] = {
        "server": str(server),
        "command": request.partition(b" ")[0].strip().decode(errors="replace"),
    }
    try:
        connection = _connect(server, connect_timeout or CONNECT_TIMEOUT_OF_NONE, socket_module, tls_context)
    except OSError as error:
        raise ConnectError(f"{server}: no connection: {error}", **about) from error
    with contextlib.closing(connection):
        try:
            return _reply(connection, request, end, time.monotonic() + (timeout or TIMEOUT_OF_NONE))
        except socket.timeout as error:
            raise Timeout(f"{server}: the server did not answer in time", **about, sent="maybe") from error
        except OSError as error:
            if isinstance(error, MemcacheUnexpectedCloseError):
                raise
            raise MemcacheUnexpectedCloseError(f"{server}: {error}", **about, sent="maybe") from error


def _connect(server: ServerSpec, timeout: float, sockets: Any, tls_context: Any) -> Any:
    if tls_context is not None and not isinstance(tls_context, ssl.SSLContext):
        raise UsageError("raw commands over TLS need an ssl.SSLContext as tls_context, not a pinyon.Tls")
    if isinstance(server, tuple):
        connection = sockets.create_connection(server, timeout)
    else:
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        connection.settimeout(timeout)
        connection.connect(server)
    if tls_context is None:
        return connection
    return tls_context.wrap_socket(connection, server_hostname=server[0] if isinstance(server, tuple) else None)


def _reply(connection: Any, request: bytes, end: bytes, deadline: float) -> bytes:
    _wait_until(connection, deadline)
    connection.sendall(request)
    reply = bytearray()
    while True:
        # Search only what is new, and the bytes before it that may begin the end mark.
        found = reply.find(end, max(0, len(reply) - 65536 - len(end)))
        line = bytes(reply[:512]).partition(b"\r\n")
        kind = error_of_server(line[0].decode(errors="replace")) if line[1] else None
        if kind is not None:
            raise kind(line[0].decode(errors="replace"), sent="yes")
        if found >= 0:
            return bytes(reply[:found])
        if len(reply) > LARGEST_VALUE:
            raise MemcacheUnknownError(f"the reply has more than {LARGEST_VALUE} bytes and no end", sent="yes")
        _wait_until(connection, deadline)
        received = connection.recv(65536)
        if not received:
            raise MemcacheUnexpectedCloseError("the server closed the connection", sent="maybe")
        reply += received


def _wait_until(connection: Any, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout
    connection.settimeout(left)
