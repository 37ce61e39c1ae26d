"""A client for shared caches on memcached and shared locks on Redis or Valkey.

>>> import pinyon
>>> cache = pinyon.Client("127.0.0.1:11211")
>>> cache.set("greeting", "hello", ttl=60)
True
>>> cache.get("greeting")
'hello'
>>> locks = pinyon.Locks("redis://127.0.0.1:6379/0")
>>> with locks.lock("account:1", "account:2") as held:
...     held.token > 0
True
"""

try:
    from pinyon._native import Batch, __version__, know_classes
except ImportError as _refused:
    if "does not support loading in subinterpreters" in str(_refused):
        _why = "pinyon does not work in an interpreter with a GIL of its own: use threads, or a process for each"
        raise ImportError(_why) from _refused
    raise
from pinyon._credentials import Credentials
from pinyon.client import Client
from pinyon.compression import Compression
from pinyon.errors import (
    AlreadyHeld,
    BatchError,
    BatchFailure,
    Closed,
    ConnectError,
    ConnectionLost,
    Deadlock,
    Error,
    InvalidKey,
    InvalidName,
    InvalidServers,
    LeaseTimeout,
    LockError,
    LockLost,
    LockTimeout,
    ProtocolError,
    ServerDown,
    ServerError,
    Timeout,
    UndecodableValue,
    UnknownFlags,
    Unpicklable,
    Unsupported,
    UnsupportedType,
    UsageError,
    ValueTooLarge,
)
from pinyon.events import Event
from pinyon.leases import Lease, Outcome
from pinyon.locks import Held, Lock, Locks, LockStatus
from pinyon.metadata import ItemMetadata
from pinyon.metrics import CommandMetrics, Latencies, LockMetrics, ServerMetrics
from pinyon.migration import MigratingClient, Progress, migrating
from pinyon.serializers import Serializer
from pinyon.tls import Tls

__all__ = [
    "AlreadyHeld",
    "Batch",
    "BatchError",
    "BatchFailure",
    "Client",
    "Closed",
    "CommandMetrics",
    "Compression",
    "ConnectError",
    "ConnectionLost",
    "Credentials",
    "Deadlock",
    "Error",
    "Event",
    "Held",
    "InvalidKey",
    "InvalidName",
    "InvalidServers",
    "ItemMetadata",
    "Latencies",
    "Lease",
    "LeaseTimeout",
    "Lock",
    "LockError",
    "LockLost",
    "LockMetrics",
    "LockStatus",
    "LockTimeout",
    "Locks",
    "MigratingClient",
    "Outcome",
    "Progress",
    "ProtocolError",
    "Serializer",
    "ServerDown",
    "ServerError",
    "ServerMetrics",
    "Timeout",
    "Tls",
    "UndecodableValue",
    "UnknownFlags",
    "Unpicklable",
    "Unsupported",
    "UnsupportedType",
    "UsageError",
    "ValueTooLarge",
    "__version__",
    "migrating",
]

know_classes()
del know_classes
