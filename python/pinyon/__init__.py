"""One client for shared caches (memcached), as fast as a bare socket.

>>> import pinyon
>>> cache = pinyon.Client("127.0.0.1:11211")
>>> cache.set("greeting", "hello", ttl=60)
True
>>> cache.get("greeting")
'hello'
"""

from pinyon._native import Batch, __version__
from pinyon.client import Client
from pinyon.errors import (
    BatchError,
    BatchFailure,
    Closed,
    ConnectError,
    ConnectionLost,
    Error,
    InvalidKey,
    InvalidServers,
    ProtocolError,
    ServerDown,
    ServerError,
    Timeout,
    UndecodableValue,
    UnknownFlags,
    Unsupported,
    UnsupportedType,
    UsageError,
    ValueTooLarge,
)
from pinyon.metadata import ItemMetadata
from pinyon.serializers import Serializer

__all__ = [
    "Batch",
    "BatchError",
    "BatchFailure",
    "Client",
    "Closed",
    "ConnectError",
    "ConnectionLost",
    "Error",
    "InvalidKey",
    "InvalidServers",
    "ItemMetadata",
    "ProtocolError",
    "Serializer",
    "ServerDown",
    "ServerError",
    "Timeout",
    "UndecodableValue",
    "UnknownFlags",
    "Unsupported",
    "UnsupportedType",
    "UsageError",
    "ValueTooLarge",
    "__version__",
]
