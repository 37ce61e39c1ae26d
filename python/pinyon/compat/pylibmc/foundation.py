"""The base of pylibmc's client: connections, behaviors, values, keys and failures."""

from __future__ import annotations

import operator
import re
import time as clock
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

import pinyon
from pinyon.compat.pylibmc import behaviors as behaving
from pinyon.compat.pylibmc import values
from pinyon.compat.pylibmc.errors import BadKeyProvided, CacheMiss, ClientError, translated
from pinyon.compat.pylibmc.servers import Server, Spec, translate_server_specs

if TYPE_CHECKING:
    from typing_extensions import Self, TypeAlias

Key: TypeAlias = Union[str, bytes]

#: The longest key, in bytes.
_LONGEST = 250
#: Bytes that would end a key in a line of the text protocol.
_UNSENDABLE = re.compile(rb"[\x00-\x20\x7f]")
#: If a time is larger than this, in seconds, memcached reads it as a Unix time.
_LONGEST_RELATIVE = 30 * 24 * 60 * 60

#: Stands for a missing value, because None is a value.
MISS = object()


class Connections:
    """Pinyon's client, which clones share. It is closed when the last clone drops it."""

    def __init__(self, cache: pinyon.Client) -> None:
        self.cache = cache

    def __del__(self) -> None:
        self.cache.close()


class Foundation:
    """pylibmc's client without its commands."""

    _connections: Connections | None

    def __init__(
        self,
        servers: Iterable[Server],
        behaviors: Mapping[str, Any] | None = None,
        binary: bool = False,
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        if (username is None) != (password is None):
            raise TypeError("a login takes both username and password")
        if isinstance(servers, (str, bytes)):
            raise TypeError(f"servers is a list of servers, not one of them: write [{servers!r}]")
        self.addresses: list[Server] = list(servers)
        self.binary = binary
        self._login = (username, password)
        self._specs: list[Spec] = translate_server_specs(self.addresses)
        self._behave(behaving.changed(behaving.defaults(), behaviors or {}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.addresses!r}, binary={self.binary!r})"

    def __str__(self) -> str:
        return f"<{type(self).__name__} for {', '.join(map(str, self.addresses))}, binary={self.binary!r}>"

    @property
    def _cache(self) -> pinyon.Client:
        return self._connected().cache

    def _connected(self) -> Connections:
        """Return Pinyon's client. It is made on first use, and again after behaviors were set: they choose the ring."""
        if self._connections is not None:
            return self._connections
        username, password = self._login
        cache = pinyon.Client(
            **behaving.settings(self._behaviors, self._specs),
            serializer=values.AsStored(),
            encode_keys=bool(self.binary),
            max_value_size=values.LARGEST,
            username=username,
            password=password,
        )
        self._connections = connections = Connections(cache)
        return connections

    def disconnect_all(self) -> None:
        """Drop all connections. The next command connects again. Clones keep their connections."""
        self._connections = None

    def clone(self) -> Self:
        """Return a client with the same servers and behaviors. Both share connections until one sets behaviors."""
        clone = type(self).__new__(type(self))
        clone.addresses, clone.binary = list(self.addresses), self.binary
        clone._login, clone._specs = self._login, self._specs
        clone._behave(self._behaviors, self._connected())
        return clone

    def get_behaviors(self) -> behaving.BehaviorDict:
        """Return the behaviors by name. Setting one in the dict sets it on the client."""
        shown = {name: value for name, value in self._behaviors.items() if name not in behaving.all_callbacks}
        return behaving.BehaviorDict(self, shown)

    def set_behaviors(self, behaviors: Mapping[str, Any]) -> None:
        """Set these behaviors. The others do not change."""
        self._behave(behaving.changed(self._behaviors, behaviors))

    @property
    def behaviors(self) -> behaving.BehaviorDict:
        """The behaviors by name. Setting one in the dict sets it on the client."""
        return self.get_behaviors()

    @behaviors.setter
    def behaviors(self, behaviors: Mapping[str, Any]) -> None:
        self.set_behaviors(behaviors)

    def _behave(self, behaviors: dict[str, Any], connections: Connections | None = None) -> None:
        self._behaviors = behaviors
        self._longest = _LONGEST - len(behaviors.get("namespace", b""))
        self._connections = connections

    # Values.

    def serialize(self, value: Any) -> tuple[bytes, int]:
        """Return the value's bytes and flags. Subclasses may override this."""
        return values.serialize(value, self._behaviors["pickle_protocol"])

    def deserialize(self, bytestring: bytes, flags: int) -> Any:
        """Return the value of these bytes and flags, or raise ``CacheMiss``. Subclasses may override this."""
        return values.deserialize(bytestring, flags)

    def _dump(self, value: Any, least: int = 0, level: int = -1) -> values.Stored:
        if not -1 <= level <= 9:
            raise ValueError("compress_level must be between 0 and 9 inclusive")
        return values.compressed(values.checked(self.serialize(value)), least, level)

    def _load(self, stored: values.Stored) -> Any:
        data, flags = stored
        try:
            return self.deserialize(values.inflated(data) if flags & values.ZLIB else data, flags)
        except CacheMiss:
            return MISS

    # Keys.

    def _name(self, key: Any, prefix: bytes = b"") -> bytes:
        name = prefix + encoded(key)
        if len(name) > self._longest:
            raise ValueError(f"key length {len(name)} too long, max is {self._longest}")
        return name

    def _named(self, keys: Iterable[Any], prefix: Key | None) -> list[tuple[bytes, Any]]:
        """Return the keys that are sent, each with the key that was given."""
        before = b"" if prefix is None else encoded(prefix)
        return [(self._name(key, before), key) for key in keys]

    def _unsendable(self, names: Iterable[bytes]) -> list[bytes]:
        """Return the keys with spaces or control bytes, unless such keys are encoded."""
        if self.binary or not _UNSENDABLE.search(b"".join(names := list(names))):
            return []
        return [name for name in names if _UNSENDABLE.search(name)]

    def _failure(self, error: pinyon.Error) -> Exception:
        return translated(error, bool(self._behaviors["verify_keys"]))

    def _refuse(self, names: Iterable[bytes]) -> list[bytes]:
        """Return the invalid keys, or raise an error for them, by the behavior ``verify_keys``."""
        refused = self._unsendable(names)
        if refused and not self._behaviors["verify_keys"]:
            raise ClientError(f"the key {refused[0]!r} has spaces or control bytes, which memcached does not take")
        return refused

    def _softened(self, error: pinyon.Error) -> bool:
        """Return False for an invalid key if the behavior ``verify_keys`` is set. Raise all other errors."""
        failure = self._failure(error)
        if isinstance(failure, BadKeyProvided):
            return False
        raise failure from error


def encoded(key: Any) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"key must be bytes or str, not {type(key).__name__}")


def ttl_of(time: Any) -> int:
    """Return the ttl for one of memcached's times, which may be a Unix time."""
    seconds = operator.index(time)
    if seconds <= _LONGEST_RELATIVE:
        return seconds
    left = seconds - int(clock.time())
    return left if left > 0 else -1
