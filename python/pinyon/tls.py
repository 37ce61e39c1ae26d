"""TLS: which servers to trust, and the client's own certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon import _native

__all__ = ["Tls"]

if TYPE_CHECKING:
    import os
    from typing import Union

    from typing_extensions import Self

    _Path = Union[str, "os.PathLike[str]"]


class Tls(_native.Tls):
    """How clients speak TLS: ``pinyon.Client(…, tls=pinyon.Tls(ca="ca.pem"))``. Several clients can share one.

    Clients always verify the server's certificate, and that it was issued for the host or IP address by which they know
    the server. They speak TLS 1.2 and 1.3. Connections that share a ``Tls`` resume each other's sessions.

    Args:
        ca: a file with the certificates (PEM) of the only authorities to trust. Without it, the client trusts those of
            the system, or of the environment variables ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.
        certificate: a file with the client's own certificate (PEM), for servers that require one, followed by the
            certificates up to the authority that the servers trust.
        key: a file with the certificate's private key (PEM). Without it, the key is in the certificate's file.
        server_name: the name in the servers' certificates, if it is not the host that the client connects to, as behind
            a tunnel or on a Unix socket.
        accept_any_certificate_which_is_dangerous: verify nothing. Anyone between client and server can then read and
            change everything. For experiments only.

    Raises:
        UsageError: a file cannot be read or used, or the arguments contradict each other.
    """

    __slots__ = ()

    def __new__(
        cls,
        *,
        ca: _Path | None = None,
        certificate: _Path | None = None,
        key: _Path | None = None,
        server_name: str | None = None,
        accept_any_certificate_which_is_dangerous: bool = False,
    ) -> Self:
        return super().__new__(
            cls,
            ca=ca,
            certificate=certificate,
            key=key,
            server_name=server_name,
            accept_any_certificate_which_is_dangerous=accept_any_certificate_which_is_dangerous,
        )

    if not TYPE_CHECKING:

        def __init__(self, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""
