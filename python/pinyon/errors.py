"""Everything Pinyon raises: one tree, whose leaves are Python's own errors too where one fits.

A miss is never an error: it is ``None``, ``False`` or a key that is not in the dict.
"""

from __future__ import annotations

from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon import _native

__all__ = [
    "AlreadyHeld",
    "BatchError",
    "BatchFailure",
    "Closed",
    "ConnectError",
    "ConnectionLost",
    "Deadlock",
    "Error",
    "InvalidKey",
    "InvalidName",
    "InvalidServers",
    "LeaseTimeout",
    "LockError",
    "LockLost",
    "LockTimeout",
    "ProtocolError",
    "ServerDown",
    "ServerError",
    "Timeout",
    "UndecodableValue",
    "UnknownFlags",
    "Unpicklable",
    "Unsupported",
    "UnsupportedType",
    "UsageError",
    "ValueTooLarge",
]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Literal


class Error(Exception):
    """The root of the tree.

    Attributes:
        server: the server's name as the client was given it, or None where no server was involved.
        command: the protocol's name of the command, or None where there was none.
        sent: whether the server may have executed the command: ``"no"`` (nothing of it was sent), ``"maybe"``
            (it was sent and no answer came) or ``"yes"`` (the server answered).
        partial: what was achieved before the failure: of ``get_many`` the dict of what arrived, of ``set_many``
            the keys not known to be stored, of ``delete_many`` the number deleted; else None.
    """

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        command: str | None = None,
        sent: Literal["no", "maybe", "yes"] = "no",
    ) -> None:
        super().__init__(message)
        self.server = server
        self.command = command
        self.sent = sent
        self.partial: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[Error], args: tuple[Any, ...], attributes: dict[str, Any]) -> Error:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class Timeout(Error, TimeoutError):
    """The operation took longer than the client's timeout."""


class LeaseTimeout(Timeout):
    """Another caller was still making the value when the time to wait for it had passed."""


class ConnectError(Error, ConnectionError):
    """No connection could be made: refused, unreachable, or a name that does not resolve."""


class ConnectionLost(Error, ConnectionError):
    """The connection broke while the command was in flight."""


class ServerDown(Error, ConnectionError):
    """The server failed, is marked down, and is not tried again until its back-off has passed."""


class ProtocolError(Error):
    """The server sent something that the protocol does not allow, or a reply to another request.

    The connection is closed, and no value of such a reply is returned.
    """


class ServerError(Error):
    """The server answered with an error; the message quotes it."""


class Unsupported(Error):
    """The server's version does not support this; the message names the first version that does."""


class UsageError(Error, ValueError):
    """An argument is wrong, or something was used wrongly; the message says what is right."""


class InvalidKey(UsageError):
    """A key that memcached does not take: empty, too long, or with spaces or control bytes; the message names it."""


class InvalidServers(UsageError):
    """A server list that is empty or malformed."""


class ValueTooLarge(Error, ValueError):
    """A value larger than ``max_value_size``, or than the server stores (its option ``-I``)."""


class UnsupportedType(Error, TypeError):
    """A key, value or argument of the wrong type; the message names the type and says what to pass."""


class Unpicklable(UnsupportedType, PicklingError):
    """A value that cannot be pickled; ``__cause__`` says why."""


class UndecodableValue(Error, ValueError):
    """A stored value that cannot be read as its flags say."""


class UnknownFlags(UndecodableValue):
    """A stored value whose flags the serializer does not know: another client, or another setting, wrote it."""


class Closed(Error):
    """The client was closed."""


class LockError(Error):
    """An operation on a lock failed."""


class LockTimeout(LockError, Timeout):
    """The lock could not be acquired in time, because others held it; the message says who, and for how long.

    A server that does not answer raises ``Timeout`` or ``ConnectError`` instead.

    Attributes:
        holder: who held it, as ``client:owner:number``; None if that is not known, like all that follows.
        held_for: seconds for which it was held then.
        host: the short name of the holder's host.
        pid: the holder's process there.
        label: what the holder's client is called (``Locks(label=...)``).
        note: what the holder says about its lock (``lock(..., note=...)``).
    """

    holder: str | None = None
    held_for: float | None = None
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    note: str | None = None


class LockLost(LockError):
    """The lock is no longer held: its ttl passed, its key was deleted, or it was released by force."""


class AlreadyHeld(LockError):
    """The caller already holds one of the names, and would wait for itself."""


class Deadlock(LockError):
    """The holders of the names are waiting, in turn, for a lock that the caller holds.

    Attributes:
        cycle: the holders, each ``client:owner:number``.
    """

    cycle: list[str]


class InvalidName(UsageError):
    """A name that no lock can have: empty, too long, or with a NUL."""


class BatchFailure(NamedTuple):
    """One failed command of a quiet batch."""

    key: str | bytes
    command: str
    reason: str
    error: Error | None


class BatchError(Error):
    """Some commands of a quiet batch failed; the others were executed.

    Attributes:
        failures: a :class:`BatchFailure` for each.
    """

    def __init__(self, failures: Sequence[BatchFailure]) -> None:
        first = failures[0]
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"quiet batch: {first.command} of {first.key!r} failed: {first.reason}{more}")
        self.failures: list[BatchFailure] = list(failures)
        sent = {failure.error.sent if failure.error else "yes" for failure in failures}
        self.sent = "maybe" if "maybe" in sent else "no" if sent == {"no"} else "yes"


#: The errors of a server that failed, which ``on_failure="miss"`` turns into misses. A ``LockTimeout`` is a
#: ``Timeout``, so ``except OUTAGES`` catches it too.
OUTAGES: tuple[type[Error], ...] = tuple(globals()[name] for name, *_, is_outage in _native.ERROR_KINDS if is_outage)
