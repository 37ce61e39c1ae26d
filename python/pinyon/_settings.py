"""The names and types of settings, for type checkers. Their defaults and checks are the core's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from typing_extensions import Literal

    from pinyon.compression import Compression
    from pinyon.events import Event
    from pinyon.serializers import Serializer
    from pinyon.tls import Tls

    Dialect = Literal[
        "pinyon",
        "pylibmc",
        "python-memcached",
        "pymemcache",
        "meta-memcache",
        "libmc",
        "dalli",
        "cache-memcached",
        "cache-memcached-fast",
        "php-memcached",
    ]


class ClientSettings(TypedDict, total=False):
    """What ``pinyon.Client`` takes besides its servers, and documents."""

    namespace: str | bytes | None
    ring: str
    timeout: float
    connect_timeout: float
    serializer: str | Serializer
    failover: bool
    on_failure: Literal["raise", "miss"]
    gutter: str | Iterable[str] | None
    gutter_ttl: float | timedelta
    discovery: Literal["config", "dns"] | None
    discovery_interval: float
    on_event: Callable[[Event], object] | None
    slow_after: float | None
    max_connections: int
    encode_keys: bool
    key_rule: Literal["refused", "encoded", "dalli", "cache-memcached", "cache-memcached-fast"] | None
    max_value_size: int
    max_decompressed_size: int | None
    compression: bool | Literal["zstd", "zlib", "gzip"] | Compression | None
    dialect: Dialect
    max_in_flight: int
    max_unsent: int
    tls: bool | Tls | None
    username: str | None
    password: str | bytes | None


class SharedClientSettings(ClientSettings, total=False):
    """Those of the clients that share connections."""

    connections: int


class LockSettings(TypedDict, total=False):
    """What ``pinyon.Locks`` takes besides its URL, and documents."""

    namespace: str | bytes
    hash_tags: Literal["namespace", "names"]
    ttl: float
    timeout: float
    reentrant: bool
    handler: Literal["auto", "script", "pure"]
    fairness: Literal["fifo", "throughput"]
    username: str | None
    password: str | bytes | None
    heartbeat: float
    command_timeout: float
    connect_timeout: float
    tls: bool | Tls | None
