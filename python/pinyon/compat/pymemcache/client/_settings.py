"""Converts pymemcache's settings to those of ``pinyon.Client``."""

from __future__ import annotations

import platform
import socket
import ssl
import tempfile
from types import ModuleType
from typing import Any

import pinyon
from pinyon.compat.pymemcache.client._arguments import ServerSpec, address_of
from pinyon.errors import UsageError

#: Seconds for ``timeout=None`` and ``connect_timeout=None``, because every wait must end.
TIMEOUT_OF_NONE = 10.0
CONNECT_TIMEOUT_OF_NONE = 5.0

#: pymemcache has no limit for the size of values. Pinyon needs one to bound its memory.
LARGEST_VALUE = 128 * 1024 * 1024


class KeepaliveOpts:
    """pymemcache's ``socket_keepalive``: when the system asks whether a silent connection is still there.

    Args:
        idle: the silence before the first question, in seconds.
        intvl: the time between two questions, in seconds.
        cnt: how many questions may remain unanswered.
    """

    __slots__ = ("cnt", "idle", "intvl")

    def __init__(self, idle: int = 1, intvl: int = 1, cnt: int = 5) -> None:
        for name, value in (("idle", idle), ("intvl", intvl), ("cnt", cnt)):
            if value < 1:
                raise ValueError(f"The {name} parameter must be greater or equal to 1.")
        self.idle: int = idle
        self.intvl: int = intvl
        self.cnt: int = cnt


def keepalive_of(options: Any) -> dict[str, Any]:
    """Return Pinyon's settings for keepalive options. Raise the same errors as pymemcache."""
    if options is None:
        return {}
    if platform.system() != "Linux":
        raise SystemError(f"socket_keepalive is for Linux, not {platform.system()}; leave it out")
    if not isinstance(options, KeepaliveOpts):
        raise ValueError(f"socket_keepalive is a KeepaliveOpts, not {type(options).__qualname__}")
    return {"keepalive": options.idle, "keepalive_interval": options.intvl, "keepalive_probes": options.cnt}


def client_class(socket_module: Any) -> type[Any]:
    """Return the class of client that waits as the socket module does."""
    if socket_module is socket:
        return pinyon.Client
    if isinstance(socket_module, ModuleType) and socket_module.__name__.startswith("gevent."):
        from pinyon import gevent

        return gevent.Client
    raise UsageError(
        f"socket_module is socket or gevent.socket, not {socket_module!r}: Pinyon has sockets of its own; for a proxy "
        "or a tunnel give its local address as the server"
    )


def connected(
    server: ServerSpec,
    serializer: Any,
    *,
    timeout: float | None,
    connect_timeout: float | None,
    socket_module: Any,
    tls: pinyon.Tls | None,
    max_connections: int | None,
    keepalive: dict[str, Any],
) -> Any:
    """Return Pinyon's client for one server. It connects when it is first used."""
    return client_class(socket_module)(
        address_of(server),
        serializer=serializer,
        timeout=TIMEOUT_OF_NONE if timeout is None else timeout,
        connect_timeout=CONNECT_TIMEOUT_OF_NONE if connect_timeout is None else connect_timeout,
        failover=False,
        max_value_size=LARGEST_VALUE,
        tls=tls,
        **keepalive,
        **({} if max_connections is None else {"max_connections": max_connections}),
    )


def tls_of(context: Any) -> pinyon.Tls | None:
    """Return the ``pinyon.Tls`` that trusts the same authorities as an ``ssl.SSLContext``.

    Raises:
        UsageError: a setting of the context cannot be read, or Pinyon does not support it.
    """
    if context is None or isinstance(context, pinyon.Tls):
        return context
    if not isinstance(context, ssl.SSLContext):
        raise UsageError(f"tls_context is an ssl.SSLContext or a pinyon.Tls, not {type(context).__qualname__}")
    if context.verify_mode == ssl.CERT_NONE:
        return pinyon.Tls(accept_any_certificate_which_is_dangerous=True)
    if not context.check_hostname:
        raise UsageError(
            "the tls_context does not check the server's name (check_hostname), which Pinyon always does: give "
            'tls_context=pinyon.Tls(ca=…, server_name="the name in its certificate")'
        )
    if context.verify_flags & (ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_CRL_CHECK_CHAIN):
        raise UsageError(
            "the tls_context checks revocation lists, which Pinyon does not: give tls_context=pinyon.Tls(…)"
        )
    trusted = context.get_ca_certs(binary_form=True)
    if not trusted:
        raise UsageError(
            "the tls_context has no authorities that can be read from it (those of a folder cannot): give "
            'tls_context=pinyon.Tls(ca="ca.pem"), or pinyon.Tls() to trust what the system trusts'
        )
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.writelines(map(ssl.DER_cert_to_PEM_cert, trusted))
        file.flush()
        return pinyon.Tls(ca=file.name)
