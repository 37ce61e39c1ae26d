"""TLS: whom to trust, and who to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon import _native

if TYPE_CHECKING:
    import os
    from typing import Union

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

    __slots__ = ()

    if TYPE_CHECKING:

        def __new__(
            cls,
            *,
            ca: _Path | None = None,
            certificate: _Path | None = None,
            key: _Path | None = None,
            server_name: str | None = None,
            accept_any_certificate_which_is_dangerous: bool = False,
        ) -> Self: ...
    else:

        def __init__(self, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""
