"""TLS: whom to trust, and who to be."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Union

from pinyon import _native
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

_Path = Union[str, "os.PathLike[str]"]


class Tls(_native.Tls):
    """How clients speak TLS: ``pinyon.Client(…, tls=pinyon.Tls(ca="ca.pem"))``. One may serve any number of clients.

    A server's certificate is always verified, and that it is for the host, or the IP address, by which the client knows
    the server. TLS 1.2 and 1.3 are spoken. Connections that share a ``Tls`` resume each other's sessions.

    Args:
        ca: a file with the certificates (PEM) that alone are trusted to sign servers'. Without it, those that the
            system trusts are (or those of the environment variables ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``).
        certificate: a file with the client's own certificate (PEM), for servers that want one, and behind it those up
            to the one that the servers trust.
        key: a file with the certificate's private key (PEM); without it, the key is in the certificate's file.
        server_name: what the servers' certificates must be for, where that is not the host that the client is given,
            as behind a tunnel or on a Unix socket.
        accept_any_certificate_which_is_dangerous: verify nothing. Whoever can get between client and server can then
            read and change everything. For experiments alone.

    Raises:
        UsageError: a file cannot be read or used, or the arguments contradict each other.
    """

    __slots__ = ("_shown",)

    _shown: str

    def __new__(
        cls,
        *,
        ca: _Path | None = None,
        certificate: _Path | None = None,
        key: _Path | None = None,
        server_name: str | None = None,
        accept_any_certificate_which_is_dangerous: bool = False,
    ) -> Self:
        if ca is not None and accept_any_certificate_which_is_dangerous:
            raise UsageError("ca says whom to trust, and accept_any_certificate_which_is_dangerous to trust everybody")
        tls = super().__new__(
            cls,
            ca=ca,
            certificate=certificate,
            key=key,
            server_name=server_name,
            accept_any_certificate=accept_any_certificate_which_is_dangerous,
        )
        settings = {"ca": ca, "certificate": certificate, "key": key, "server_name": server_name}
        shown = [f"{name}={value!s}" for name, value in settings.items() if value is not None]
        shown += ["accept_any_certificate_which_is_dangerous"] * accept_any_certificate_which_is_dangerous
        tls._shown = ", ".join(shown)
        return tls

    if not TYPE_CHECKING:

        def __init__(self, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def __repr__(self) -> str:
        return f"<pinyon.Tls {self._shown or 'trusting what the system trusts'}>"


def settled(tls: bool | Tls | None) -> Tls | None:
    """Return what ``tls=`` of a client means."""
    if tls is None or tls is False:
        return None
    if tls is True:
        return _usual()
    if not isinstance(tls, Tls):
        raise UsageError(f"tls is True, False or a pinyon.Tls, not {type(tls).__qualname__}")
    return tls


@functools.cache
def _usual() -> Tls:
    """One for all, as reading what the system trusts takes some milliseconds."""
    return Tls()
