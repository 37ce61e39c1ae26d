"""Servers in pylibmc's notations and in Pinyon's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from pinyon.compat.pylibmc.errors import Error, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

server_type_tcp = 1
server_type_udp = 2
server_type_unix = 4

_TYPES = {"tcp": server_type_tcp, "inet": server_type_tcp, "udp": server_type_udp, "unix": server_type_unix}

#: Type, host or path, port (0 for a path), weight.
Spec: TypeAlias = "tuple[int, str, int, int]"
Server: TypeAlias = Union[str, "tuple[Any, ...]"]


def translate_server_spec(server: str, port: int = 11211, weight: int = 1) -> Spec:
    """Return a server's type, host, port and weight. The text may omit the last two.

    Args:
        server: ``"host[:port[:weight]]"``, ``"[v6][:port[:weight]]"``, ``"/path"``; or any but a path after ``"udp:"``.
        port, weight: the defaults if the text has none.

    Raises:
        ValueError: the text is malformed.
    """
    if server.startswith("/"):
        return server_type_unix, server, 0, weight
    kind, text = (server_type_udp, server[4:]) if server.startswith("udp:") else (server_type_tcp, server)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"the server {server!r} is malformed; write [v6]:port:weight")
        numbers = rest[1:]
    else:
        host, _, numbers = text.partition(":")
    own_port, _, own_weight = numbers.partition(":")
    return kind, host, int(own_port or port), int(own_weight or weight)


def translate_server_specs(servers: Iterable[Server]) -> list[Spec]:
    """Do the same for several servers. They may also be tuples of type, host or path, port and weight.

    A type is ``server_type_tcp`` or ``server_type_unix``, or its name: ``"inet"``, ``"tcp"``, ``"unix"``.

    Raises:
        Error: the list is empty.
        NotSupportedError: a server uses UDP.
        ValueError, TypeError: a server is malformed.
    """
    specs = [_spec(*server) if isinstance(server, tuple) else translate_server_spec(server) for server in servers]
    if not specs:
        raise Error("empty server list")
    if any(spec[0] == server_type_udp for spec in specs):
        raise NotSupportedError("Pinyon does not speak UDP, which cannot tell one reply from another: leave out udp:")
    return specs


def _spec(kind: int | str, host: str, port: int = 0, weight: int = 1) -> Spec:
    number = _TYPES.get(kind) if isinstance(kind, str) else kind
    if number not in (server_type_tcp, server_type_udp, server_type_unix):
        raise ValueError(f"bad type: {kind!r}")
    if number == server_type_unix:
        if port:
            raise ValueError("can't set port on unix sockets")
        return number, host, 0, weight
    return number, host, port or 11211, weight


def address(spec: Spec) -> str:
    """Return the server in Pinyon's notation, without the weight if that is 1."""
    kind, host, port, weight = spec
    suffix = f":{weight}" if weight != 1 else ""
    if kind == server_type_unix:
        return f"{host}{suffix}"
    return f"[{host}]:{port}{suffix}" if ":" in host else f"{host}:{port}{suffix}"
