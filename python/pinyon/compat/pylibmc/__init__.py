"""pylibmc's interface over Pinyon: change the import, keep the code.

>>> from pinyon.compat import pylibmc
>>> mc = pylibmc.Client(["127.0.0.1:11211"], behaviors={"tcp_nodelay": True, "ketama": True})
>>> mc["greeting"] = "hello"
>>> mc.get("greeting")
'hello'

``docs/from-pylibmc.md`` lists the differences.
"""

from __future__ import annotations

from pinyon.compat.pylibmc.behaviors import all_behaviors, all_callbacks, distributions, hashers
from pinyon.compat.pylibmc.client import Client
from pinyon.compat.pylibmc.errors import (
    AllocationError,
    BadKeyProvided,
    CacheMiss,
    ClientError,
    ConnectionBindError,
    ConnectionError,
    DataDoesNotExist,
    DataExists,
    Error,
    Failure,
    FetchNotFinished,
    HostLookupError,
    InvalidHostProtocolError,
    MemcachedError,
    NoServers,
    NotFound,
    NotSupportedError,
    ProtocolError,
    ReadError,
    ServerDead,
    ServerDown,
    ServerError,
    SocketCreateError,
    SomeErrors,
    TooBig,
    UnixSocketError,
    UnknownReadFailure,
    UnknownStatKey,
    WriteError,
    exceptions,
)
from pinyon.compat.pylibmc.pools import ClientPool, ThreadMappedPool
from pinyon.compat.pylibmc.servers import server_type_tcp, server_type_udp, server_type_unix

__all__ = [
    "AllocationError",
    "BadKeyProvided",
    "CacheMiss",
    "Client",
    "ClientError",
    "ClientPool",
    "ConnectionBindError",
    "ConnectionError",
    "DataDoesNotExist",
    "DataExists",
    "Error",
    "Failure",
    "FetchNotFinished",
    "HostLookupError",
    "InvalidHostProtocolError",
    "MemcachedError",
    "NoServers",
    "NotFound",
    "NotSupportedError",
    "ProtocolError",
    "ReadError",
    "ServerDead",
    "ServerDown",
    "ServerError",
    "SocketCreateError",
    "SomeErrors",
    "ThreadMappedPool",
    "TooBig",
    "UnixSocketError",
    "UnknownReadFailure",
    "UnknownStatKey",
    "WriteError",
    "__version__",
    "all_behaviors",
    "all_callbacks",
    "build_info",
    "callback_namespace",
    "distribution_consistent",
    "distribution_consistent_ketama",
    "distribution_consistent_ketama_spy",
    "distribution_consistent_max",
    "distribution_consistent_weighted",
    "distribution_modula",
    "distribution_random",
    "distribution_virtual_bucket",
    "distributions",
    "exceptions",
    "hash_crc",
    "hash_default",
    "hash_fnv1_32",
    "hash_fnv1_64",
    "hash_fnv1a_32",
    "hash_fnv1a_64",
    "hash_hsieh",
    "hash_jenkins",
    "hash_md5",
    "hash_murmur",
    "hashers",
    "libmemcached_version",
    "libmemcached_version_hex",
    "server_type_tcp",
    "server_type_udp",
    "server_type_unix",
    "support_compression",
    "support_sasl",
]

#: The versions that have this interface.
__version__ = "1.6.3"
libmemcached_version = "1.0.16"
libmemcached_version_hex = 0x01000016

support_compression = True
#: A login is memcached's own (its option ``-Y``), not SASL.
support_sasl = False

hash_default: int = hashers["default"]
hash_md5: int = hashers["md5"]
hash_crc: int = hashers["crc"]
hash_fnv1_64: int = hashers["fnv1_64"]
hash_fnv1a_64: int = hashers["fnv1a_64"]
hash_fnv1_32: int = hashers["fnv1_32"]
hash_fnv1a_32: int = hashers["fnv1a_32"]
hash_hsieh: int = hashers["hsieh"]
hash_murmur: int = hashers["murmur"]
hash_jenkins: int = hashers["jenkins"]
distribution_modula: int = distributions["modula"]
distribution_consistent: int = distributions["consistent"]
distribution_consistent_ketama: int = distributions["consistent ketama"]
distribution_random: int = distributions["random"]
distribution_consistent_ketama_spy: int = distributions["consistent ketama spy"]
distribution_consistent_weighted: int = distributions["consistent weighted"]
distribution_virtual_bucket: int = distributions["virtual bucket"]
distribution_consistent_max: int = distributions["consistent max"]
#: libmemcached's number for the behavior ``namespace``, which is a callback there.
callback_namespace = 0


def build_info() -> str:
    """Return a line that names the versions this module replaces."""
    return (
        f"pylibmc {__version__} for libmemcached {libmemcached_version} "
        f"(compression={support_compression}, sasl={support_sasl})"
    )
