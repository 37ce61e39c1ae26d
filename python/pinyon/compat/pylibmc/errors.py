"""pylibmc's exceptions, and how Pinyon's errors are translated into them.

Pinyon's own error is the ``__cause__``. It names the server and says whether the command was sent.
"""

from __future__ import annotations

from typing import ClassVar

import pinyon


class Error(Exception):
    """The base class of all errors here.

    Attributes:
        retcode: libmemcached's number for the error, or None if it has none.
    """

    retcode: ClassVar[int | None] = None


class CacheMiss(Error):
    """A subclass's ``deserialize`` raises this. The item then counts as a miss."""


class Failure(Error):
    retcode: ClassVar[int | None] = 1


class HostLookupError(Error):
    """The server's name does not resolve."""

    retcode: ClassVar[int | None] = 2


class ConnectionError(Error):
    """The client could not connect."""

    retcode: ClassVar[int | None] = 3


class ConnectionBindError(Error):
    retcode: ClassVar[int | None] = 4


class WriteError(Error):
    retcode: ClassVar[int | None] = 5


class ReadError(Error):
    retcode: ClassVar[int | None] = 6


class UnknownReadFailure(Error):
    """The connection was lost while the command was in flight."""

    retcode: ClassVar[int | None] = 7


class ProtocolError(Error):
    """The server sent an answer that the protocol does not allow."""

    retcode: ClassVar[int | None] = 8


class ClientError(Error):
    """The client or the server refused the request."""

    retcode: ClassVar[int | None] = 9


class ServerError(Error):
    """The server answered with an error of its own."""

    retcode: ClassVar[int | None] = 10


class SocketCreateError(Error):
    retcode: ClassVar[int | None] = 11


class DataExists(Error):
    retcode: ClassVar[int | None] = 12


class DataDoesNotExist(Error):
    retcode: ClassVar[int | None] = 13


class NotFound(Error):
    """There is no such item to increment, decrement, or compare and swap."""

    retcode: ClassVar[int | None] = 16


class AllocationError(Error):
    retcode: ClassVar[int | None] = 17


class SomeErrors(Error):
    """A command to all servers failed on some of them."""

    retcode: ClassVar[int | None] = 19


class NoServers(Error):
    retcode: ClassVar[int | None] = 20


class UnixSocketError(Error):
    retcode: ClassVar[int | None] = 27


class NotSupportedError(Error):
    """This module or the server does not support the call. The message says what to do instead."""

    retcode: ClassVar[int | None] = 28


class FetchNotFinished(Error):
    retcode: ClassVar[int | None] = 30


class BadKeyProvided(Error):
    """The key is invalid. Raised with the behavior ``verify_keys``."""

    retcode: ClassVar[int | None] = 33


class InvalidHostProtocolError(Error):
    retcode: ClassVar[int | None] = 34


class ServerDead(Error):
    retcode: ClassVar[int | None] = 35


class UnknownStatKey(Error):
    retcode: ClassVar[int | None] = 36


class TooBig(Error):
    """The value is larger than the server stores."""

    retcode: ClassVar[int | None] = 37


class ServerDown(Error):
    """The server failed, and its next attempt is not due yet."""

    retcode: ClassVar[int | None] = 47


MemcachedError = Error

#: Names and classes, as pylibmc lists them.
exceptions: list[tuple[str, type[Error]]] = [
    ("Error", Error),
    *((kind.__name__, kind) for kind in Error.__subclasses__()),
]


def translated(error: pinyon.Error, verify_keys: bool = False) -> Error | ValueError:
    """Return pylibmc's error for one of Pinyon's. Raise it from Pinyon's.

    Args:
        error: Pinyon's error.
        verify_keys: whether invalid keys raise the error of pylibmc's own check, or that of the server.
    """
    return _kind(error, verify_keys)(str(error))


def _kind(error: pinyon.Error, verify_keys: bool) -> type[Error] | type[ValueError]:
    if isinstance(error, pinyon.InvalidKey):
        return BadKeyProvided if verify_keys else ClientError
    if isinstance(error, pinyon.ConnectError) and "its name does not resolve" in str(error):
        return HostLookupError
    if isinstance(error, pinyon.ServerError) and "CLIENT_ERROR" in str(error):
        return ClientError
    return next((kind for ours, kind in _KINDS if isinstance(error, ours)), Error)


_KINDS: tuple[tuple[type[pinyon.Error], type[Error] | type[ValueError]], ...] = (
    (pinyon.ServerDown, ServerDown),
    (pinyon.ConnectError, ConnectionError),
    (pinyon.ConnectionLost, UnknownReadFailure),
    (pinyon.ProtocolError, ProtocolError),
    (pinyon.ValueTooLarge, TooBig),
    (pinyon.ServerError, ServerError),
    (pinyon.Unsupported, NotSupportedError),
    (pinyon.UsageError, ValueError),
)
