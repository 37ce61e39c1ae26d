"""pylibmc's exceptions, and which of them a failure of Pinyon's becomes.

The error that Pinyon raised is the ``__cause__``: it says which server, and whether the command was sent.
"""

from __future__ import annotations

from typing import ClassVar

import pinyon


class Error(Exception):
    """The root of the tree.

    Attributes:
        retcode: libmemcached's number of what went wrong; None where it has none.
    """

    retcode: ClassVar[int | None] = None


class CacheMiss(Error):
    """Raised by a subclass's ``deserialize``: the item counts as a miss."""


class Failure(Error):
    retcode: ClassVar[int | None] = 1


class HostLookupError(Error):
    """The server's name does not resolve."""

    retcode: ClassVar[int | None] = 2


class ConnectionError(Error):
    """No connection could be made."""

    retcode: ClassVar[int | None] = 3


class ConnectionBindError(Error):
    retcode: ClassVar[int | None] = 4


class WriteError(Error):
    retcode: ClassVar[int | None] = 5


class ReadError(Error):
    retcode: ClassVar[int | None] = 6


class UnknownReadFailure(Error):
    """The connection broke while the command was in flight."""

    retcode: ClassVar[int | None] = 7


class ProtocolError(Error):
    """The server sent what the protocol does not allow."""

    retcode: ClassVar[int | None] = 8


class ClientError(Error):
    """The server, or the client before it, refused the request."""

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
    """There is no such item to count, or to compare and swap."""

    retcode: ClassVar[int | None] = 16


class AllocationError(Error):
    retcode: ClassVar[int | None] = 17


class SomeErrors(Error):
    """What was asked of all servers failed on one of them."""

    retcode: ClassVar[int | None] = 19


class NoServers(Error):
    retcode: ClassVar[int | None] = 20


class UnixSocketError(Error):
    retcode: ClassVar[int | None] = 27


class NotSupportedError(Error):
    """What this module, or the server, does not do; the message says what to do instead."""

    retcode: ClassVar[int | None] = 28


class FetchNotFinished(Error):
    retcode: ClassVar[int | None] = 30


class BadKeyProvided(Error):
    """A key that cannot be sent, with the behavior ``verify_keys``."""

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
    """The server failed, and is not tried again yet."""

    retcode: ClassVar[int | None] = 47


MemcachedError = Error

#: As pylibmc lists them: name and class.
exceptions: list[tuple[str, type[Error]]] = [
    ("Error", Error),
    *((kind.__name__, kind) for kind in Error.__subclasses__()),
]


def translated(error: pinyon.Error, verify_keys: bool = False) -> Error | ValueError:
    """What pylibmc's users know this failure by; to be raised from it.

    Args:
        error: what Pinyon raised.
        verify_keys: whether keys that cannot be sent are told by pylibmc's own check, or as by the server.
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
