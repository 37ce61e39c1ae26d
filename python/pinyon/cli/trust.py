"""The options for TLS, named as in ``pinyon.Tls``, and for logins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pinyon.errors import UsageError
from pinyon.tls import Tls

if TYPE_CHECKING:
    import argparse

#: The environment variable for a password, because other users can see command lines.
PASSWORD = "MEMCACHE_PASSWORD"

_FILES = {
    "ca": "the authorities to trust for servers' certificates (the system's)",
    "certificate": "the client's own certificate, for servers that require one",
    "key": "its private key, if that is in a separate file",
}


def add_tls(parser: argparse.ArgumentParser) -> None:
    """Add the options for TLS to a verb."""
    group = parser.add_argument_group("TLS", "Each of these turns TLS on, as rediss:// does. Files are PEM.")
    for name, text in _FILES.items():
        group.add_argument(f"--{name}", metavar="FILE", help=text)
    group.add_argument(
        "--server-name", metavar="NAME", help="the name that servers' certificates must have (the URL's host)"
    )
    group.add_argument(
        "--accept-any-certificate-which-is-dangerous",
        action="store_true",
        default=None,
        help="verify nothing; only for experiments",
    )


def add_login(parser: argparse.ArgumentParser) -> None:
    """Add the option for a login to a verb."""
    text = f"for servers that require a login; the password is read from the environment variable {PASSWORD}"
    parser.add_argument("--username", metavar="NAME", help=text)


def login_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return a client's settings for the login in a command line. Raises ``UsageError``."""
    if options.username is None:
        return {}
    password = os.environ.get(PASSWORD)
    if password is None:
        raise UsageError(f"--username needs a password: put it in the environment variable {PASSWORD}")
    return {"username": options.username, "password": password}


def tls_of(options: argparse.Namespace) -> Tls | None:
    """Return the TLS settings of a command line, or None if it has none. Raises ``UsageError``."""
    words = (*_FILES, "server_name", "accept_any_certificate_which_is_dangerous")
    said = {word: getattr(options, word) for word in words if getattr(options, word) is not None}
    return Tls(**said) if said else None
