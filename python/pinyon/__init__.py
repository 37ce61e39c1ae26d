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

# The floors of this package. A module imports only from floors below its own, and `tests/test_layers.py` compares. The
# native half, `_native`, is below all of them: it imports nothing of this package, which registers what it needs.
#
# <!-- floors of python/pinyon -->
# ```text
# __main__
# cli compat frameworks                                the command; other clients' interfaces; cache backends
# __init__ aio                                         what users import; the clients for asyncio
# checking gevent migration opentelemetry prometheus   for tests; clients for gevent; two pools as one; monitoring
# _figures                                             what metrics come to
# _aio_locks _survey client locks                      locks for tasks, and for threads; the client for threads
# _aio_cached _aio_driver _base_locks _gevent_choice _registered   asyncio; what all locks have; which model; `_native`
# _aio_leader _once                                    leaders in tasks; jobs that run once; what is released at the end
# _aio_lock _lock                                      a lock, what is held, permits, rates: for tasks, and for threads
# _aio_replies _blocks _cached _get_or_set_many _gevent_driver _leader _telling compression leases near
# _aio_credentials _closing _get_or_set _held _logging _loop_driver _settings _wanted
# _decorated _iter_many _plain _redis_py _uncopied _waits events serializers
# _behind                                              makers that go on behind their callers
# _alive _batch _calls _credentials _lock_status _made _rate_result _shown _steps _terms errors metadata metrics tls
# ```

try:
    from pinyon._native import Batch, __version__
except ImportError as _refused:
    if "does not support loading in subinterpreters" in str(_refused):
        _why = "pinyon does not work in an interpreter with a GIL of its own: use threads, or a process for each"
        raise ImportError(_why) from _refused
    raise
from pinyon._cached import Cached
from pinyon._credentials import Credentials
from pinyon._made import Made
from pinyon._registered import register
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
from pinyon.locks import Held, Leader, Lock, LockOwner, Locks, LockStatus, Permits, Rate, RateResult
from pinyon.metadata import ItemMetadata
from pinyon.metrics import CommandMetrics, Latencies, LockMetrics, NearMetrics, ServerMetrics
from pinyon.migration import MigratingClient, Progress, migrating
from pinyon.near import Near
from pinyon.serializers import Serializer
from pinyon.tls import Tls

__all__ = [
    "AlreadyHeld",
    "Batch",
    "BatchError",
    "BatchFailure",
    "Cached",
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
    "Leader",
    "Lease",
    "LeaseTimeout",
    "Lock",
    "LockError",
    "LockLost",
    "LockMetrics",
    "LockOwner",
    "LockStatus",
    "LockTimeout",
    "Locks",
    "Made",
    "MigratingClient",
    "Near",
    "NearMetrics",
    "Outcome",
    "Permits",
    "Progress",
    "ProtocolError",
    "Rate",
    "RateResult",
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

register()
del register
