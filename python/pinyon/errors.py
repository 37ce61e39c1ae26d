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
    """The operation was not over within the client's timeout."""


class LeaseTimeout(Timeout):
    """Another caller was still making the value when the time to wait for it was over."""


class ConnectError(Error, ConnectionError):
    """No connection could be made: refused, unreachable, or a name that does not resolve."""


class ConnectionLost(Error, ConnectionError):
    """The connection broke while the command was in flight."""


class ServerDown(Error, ConnectionError):
    """The server failed repeatedly, is marked down and not tried until its back-off is over."""


class ProtocolError(Error):
    """The server sent what the protocol does not allow, or a reply to another request.

    The connection is closed, and no value of such a reply is handed out.
    """


class ServerError(Error):
    """The server answered with an error of its own; the message has its words."""


class Unsupported(Error):
    """The server's version cannot do what was asked; the message names the first that can."""


class UsageError(Error, ValueError):
    """An argument, or the way something was used, makes no sense; the message says what does."""


class InvalidKey(UsageError):
    """A key that cannot be sent: empty, too long, or with spaces or control bytes."""


class InvalidServers(UsageError):
    """A server list that cannot be understood."""


class ValueTooLarge(Error, ValueError):
    """A value beyond ``max_value_size``, or beyond what the server stores."""


class UnsupportedType(Error, TypeError):
    """A key, value or setting has a type that the client does not take; the message names the type and what to do."""


class Unpicklable(UnsupportedType, PicklingError):
    """A value that the serializer "pickle" cannot write; why not is its ``__cause__``."""


class UndecodableValue(Error, ValueError):
    """A stored value that is not what its flags say."""


class UnknownFlags(UndecodableValue):
    """A stored value whose flags the serializer does not know: another client, or another setting, wrote it."""


class Closed(Error):
    """The client was closed."""


class LockError(Error):
    """What can go wrong with a lock."""


class LockTimeout(LockError, TimeoutError):
    """The names were not to be had in time."""


class LockLost(LockError):
    """The lock is not held any more: its ttl passed, it was deleted, or somebody released it by force."""


class AlreadyHeld(LockError):
    """Whoever asks holds one of the names already, and would wait for itself."""


class Deadlock(LockError):
    """The holders of the names wait, in turn, for what whoever asks holds.

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
    """Commands of a quiet batch failed; the others were carried out.

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


#: What says that a server failed, and not that it was asked wrongly: what ``on_failure="miss"`` makes a miss of.
OUTAGES: tuple[type[Error], ...] = tuple(globals()[name] for name, *_, is_outage in _native.ERROR_KINDS if is_outage)
