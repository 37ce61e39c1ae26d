"""pymemcache's errors. They are also Pinyon's, so ``except pinyon.Error`` catches them all.

Timeouts, failed connections and servers that are marked down raise Pinyon's own errors. These are ``TimeoutError`` and
``ConnectionError``, both ``OSError`` as in pymemcache.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pinyon import errors

if TYPE_CHECKING:
    from typing_extensions import Literal


class MemcacheError(errors.Error):
    """The base class of pymemcache's errors."""

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
    """The server could not understand a request."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not know the command."""


class MemcacheIllegalInputError(MemcacheClientError, errors.UsageError):
    """A key, a value or another argument cannot be sent."""


class MemcacheServerError(MemcacheError):
    """The server could not carry out a request."""


class MemcacheUnknownError(MemcacheError, errors.ProtocolError):
    """The server sent an answer that the protocol does not allow."""


class MemcacheUnexpectedCloseError(MemcacheServerError, errors.ConnectionLost):
    """The connection broke while a command was in flight."""


#: The errors by the first word of a server's error line.
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
    """Return the class of error for a server's line, or None if the line is no error."""
    return _SERVERS_WORDS.get(re.split(r"[ :\"]", words, maxsplit=1)[0])


def translated(error: errors.Error) -> errors.Error:
    """Return pymemcache's error for one of Pinyon's, or the same error if pymemcache has none for it."""
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
