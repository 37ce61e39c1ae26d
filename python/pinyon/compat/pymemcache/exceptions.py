"""pymemcache's errors. They are Pinyon's too, so that ``except pinyon.Error`` catches them all.

A timeout, a connection that cannot be made and a server that is marked down stay what they are in Pinyon:
``TimeoutError`` and ``ConnectionError``, both ``OSError`` as in pymemcache.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pinyon import errors

if TYPE_CHECKING:
    from typing_extensions import Literal


class MemcacheError(errors.Error):
    """The root of pymemcache's tree."""

    def __init__(
        self,
        message: object = "",
        *,
        server: str | None = None,
        command: str | None = None,
        sent: Literal["no", "maybe", "yes"] = "no",
    ) -> None:
        super().__init__(str(message), server=server, command=command, sent=sent)


class MemcacheClientError(MemcacheError):
    """The server could not make sense of a request."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not know the command."""


class MemcacheIllegalInputError(MemcacheClientError, errors.UsageError):
    """A key, a value or another argument cannot be sent."""


class MemcacheServerError(MemcacheError):
    """The server could not carry out a request."""


class MemcacheUnknownError(MemcacheError, errors.ProtocolError):
    """The server sent what the protocol does not allow."""


class MemcacheUnexpectedCloseError(MemcacheServerError, errors.ConnectionLost):
    """The connection broke while a command was in flight."""


#: How the first word of a server's error names what went wrong.
_SERVERS_WORDS = {
    "ERROR": MemcacheUnknownCommandError,
    "CLIENT_ERROR": MemcacheClientError,
    "SERVER_ERROR": MemcacheServerError,
}

_KINDS: list[tuple[type[errors.Error], type[MemcacheError]]] = [
    (errors.ConnectionLost, MemcacheUnexpectedCloseError),
    (errors.ProtocolError, MemcacheUnknownError),
    (errors.ValueTooLarge, MemcacheServerError),
    (errors.UsageError, MemcacheIllegalInputError),
    (errors.UnsupportedType, MemcacheIllegalInputError),
]


def error_of_server(words: str) -> type[MemcacheError] | None:
    """The error that a server's line stands for, or None when it is none."""
    return _SERVERS_WORDS.get(re.split(r"[ :\"]", words, maxsplit=1)[0])


def translated(error: errors.Error) -> errors.Error:
    """Pymemcache's error for one of Pinyon's, or the same where it has none of its own."""
    if isinstance(error, MemcacheError):
        return error
    if isinstance(error, errors.ServerError):
        _, _, words = str(error).partition('the server answered "')
        kind = error_of_server(words) or MemcacheServerError
    else:
        found = next((kind for ours, kind in _KINDS if isinstance(error, ours)), None)
        if found is None:
            return error
        kind = found
    made = kind(error, server=error.server, command=error.command, sent=error.sent)
    made.partial = error.partial
    return made
