"""What a command line says about TLS, in the words of ``pinyon.Tls``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon.tls import Tls

if TYPE_CHECKING:
    import argparse

_FILES = {
    "ca": "what alone is trusted to sign servers' certificates (what the system trusts)",
    "certificate": "the client's own certificate, for servers that want one",
    "key": "its private key, where that is in a file of its own",
}


def add_tls(parser: argparse.ArgumentParser) -> None:
    """Add the options of TLS to a verb's."""
    group = parser.add_argument_group("TLS", "Each of these says that TLS is spoken, as rediss:// does. Files are PEM.")
    for name, text in _FILES.items():
        group.add_argument(f"--{name}", metavar="FILE", help=text)
    group.add_argument("--server-name", metavar="NAME", help="what servers' certificates must be for (the URL's host)")
    group.add_argument(
        "--accept-any-certificate-which-is-dangerous",
        action="store_true",
        default=None,
        help="verify nothing; for experiments alone",
    )


def tls_of(options: argparse.Namespace) -> Tls | None:
    """Return what a command line says about TLS; None where the URL alone does. Raises ``UsageError``."""
    words = (*_FILES, "server_name", "accept_any_certificate_which_is_dangerous")
    said = {word: getattr(options, word) for word in words if getattr(options, word) is not None}
    return Tls(**said) if said else None
