"""A storage for ``limits``, and so for Flask-Limiter, slowapi and others: ``pinyon://127.0.0.1:6379/0``.

``import pinyon.frameworks.limits`` registers it. It has fixed and moving windows. Each hit is one command, and the
server's clock counts, not those of its clients.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import limits.aio.storage
import limits.storage

import pinyon
import pinyon.aio
from pinyon.errors import Error, ServerError

_T = TypeVar("_T")

if TYPE_CHECKING:
    from collections.abc import Generator

    from typing_extensions import TypeAlias

    #: A conversation with the server: commands out, replies in.
    _Steps: TypeAlias = Generator[tuple[Any, ...], Any, _T]

#: The schemes of URLs. What follows `pinyon+` is a URL of `pinyon.Locks`.
SCHEMES: Final = [
    "pinyon",
    *(f"pinyon+{url}" for url in ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")),
]

#: How many keys one command of ``reset`` asks for.
SCANNED = 1000


class Script:
    """A script on the server, which is sent as a whole only if the server does not have it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha: str = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, key: bytes, *arguments: int) -> _Steps[Any]:
        try:
            return (yield ("EVALSHA", self.sha, 1, key, *arguments))
        except ServerError as error:
            if "NOSCRIPT" not in str(error):
                raise
        return (yield ("EVAL", self.text, 1, key, *arguments))


#: A fixed window: its key expires when it ends.
INCREMENT = Script("""
local count = redis.call('INCRBY', KEYS[1], ARGV[2])
if count == tonumber(ARGV[2]) then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return count
""")

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]\n"

#: A moving window: a list of the times of the last entries in microseconds, the newest first.
ACQUIRE = Script(
    _NOW
    + """
local limit, expiry, amount = tonumber(ARGV[1]), ARGV[2] * 1000000, tonumber(ARGV[3])
if amount > limit then return 0 end
local entry = redis.call('LINDEX', KEYS[1], limit - amount)
if entry and now - entry < expiry then return 0 end
for _ = 1, amount do redis.call('LPUSH', KEYS[1], string.format('%.0f', now)) end
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
)

#: The server's time, the time of the oldest entry in the window, and the number of entries there.
LOOK = Script(
    _NOW
    + """
local below, past, oldest = 0, tonumber(ARGV[1]), now
while below < past do
  local middle = math.floor((below + past) / 2)
  local entry = redis.call('LINDEX', KEYS[1], middle)
  if entry and now - entry < ARGV[2] * 1000000 then
    below, oldest = middle + 1, entry + 0
  else
    past = middle
  end
end
return {string.format('%.0f', oldest), below}
"""
)


class Windows:
    """What both storages ask the server."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix: bytes = prefix + b"w:"

    def key(self, key: str) -> bytes:
        """Return the key on the server, in the slot of its namespace."""
        return self.prefix + key.encode()

    def incr(self, key: str, expiry: int, amount: int) -> _Steps[int]:
        count: int = yield from INCREMENT(self.key(key), expiry, amount)
        return count

    def get(self, key: str) -> _Steps[int]:
        return int((yield ("GET", self.key(key))) or 0)

    def get_expiry(self, key: str) -> _Steps[float]:
        left: int = yield ("PTTL", self.key(key))
        return time.time() + max(left, 0) / 1000

    def acquire(self, key: str, limit: int, expiry: int, amount: int) -> _Steps[bool]:
        acquired: int = yield from ACQUIRE(self.key(key), limit, expiry, amount)
        return acquired == 1

    def look(self, key: str, limit: int, expiry: int) -> _Steps[tuple[float, int]]:
        oldest, count = yield from LOOK(self.key(key), limit, expiry)
        return int(oldest) / 1e6, count

    def clear(self, key: str) -> _Steps[None]:
        yield ("DEL", self.key(key))

    def reset(self) -> _Steps[int]:
        cursor, deleted = b"0", 0
        pattern = (
            b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\^" else bytes([byte]) for byte in self.prefix) + b"*"
        )
        while True:
            cursor, keys = yield ("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
            for at in range(0, len(keys), SCANNED):
                deleted += yield ("DEL", *keys[at : at + SCANNED])
            if cursor == b"0":
                return deleted


class PinyonStorage(limits.storage.Storage, limits.storage.MovingWindowSupport):
    """Fixed and moving windows on Redis or Valkey, for threads and gevent.

    Args:
        uri: ``pinyon://[user[:password]@]host[:port][/database]``, or ``pinyon+`` and a URL of ``pinyon.Locks``.
        wrap_exceptions: whether to raise ``limits.errors.StorageError`` instead of errors of Pinyon.
        options: further settings of ``pinyon.Locks``, such as ``namespace``.
    """

    STORAGE_SCHEME: ClassVar[list[str]] = SCHEMES  # type: ignore[misc]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.locks: pinyon.Locks = pinyon.Locks(_url(uri), **options)
        self.windows: Windows = Windows(self.locks.prefix)

    @property
    def base_exceptions(self) -> type[Exception]:
        return Error

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._run(self.windows.incr(key, expiry, amount))

    def get(self, key: str) -> int:
        return self._run(self.windows.get(key))

    def get_expiry(self, key: str) -> float:
        return self._run(self.windows.get_expiry(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._run(self.windows.acquire(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return self._run(self.windows.look(key, limit, expiry))

    def check(self) -> bool:
        try:
            return bool(self.locks.execute("PING") == "PONG")
        except Error:
            return False

    def clear(self, key: str) -> None:
        self._run(self.windows.clear(key))

    def reset(self) -> int | None:
        return self._run(self.windows.reset())

    def _run(self, steps: _Steps[_T]) -> _T:
        try:
            command = next(steps)
            while True:
                try:
                    reply = self.locks.execute(*command)
                except ServerError as error:
                    command = steps.throw(error)
                else:
                    command = steps.send(reply)
        except StopIteration as end:
            result: _T = end.value
            return result


class AsyncPinyonStorage(limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport):
    """Fixed and moving windows on Redis or Valkey, for asyncio.

    Args:
        uri: as for ``PinyonStorage``, with ``async+`` before it.
        wrap_exceptions: see there.
        options: see there.
    """

    STORAGE_SCHEME: ClassVar[list[str]] = [f"async+{scheme}" for scheme in SCHEMES]  # type: ignore[misc]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.locks: pinyon.aio.Locks = pinyon.aio.Locks(_url(uri), **options)
        self.windows: Windows = Windows(self.locks.prefix)

    @property
    def base_exceptions(self) -> type[Exception]:
        return Error

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return await self._run(self.windows.incr(key, expiry, amount))

    async def get(self, key: str) -> int:
        return await self._run(self.windows.get(key))

    async def get_expiry(self, key: str) -> float:
        return await self._run(self.windows.get_expiry(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self._run(self.windows.acquire(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return await self._run(self.windows.look(key, limit, expiry))

    async def check(self) -> bool:
        try:
            return bool(await self.locks.execute("PING") == "PONG")
        except Error:
            return False

    async def clear(self, key: str) -> None:
        await self._run(self.windows.clear(key))

    async def reset(self) -> int | None:
        return await self._run(self.windows.reset())

    async def _run(self, steps: _Steps[_T]) -> _T:
        try:
            command = next(steps)
            while True:
                try:
                    reply = await self.locks.execute(*command)
                except ServerError as error:
                    command = steps.throw(error)
                else:
                    command = steps.send(reply)
        except StopIteration as end:
            result: _T = end.value
            return result


def _url(uri: str) -> str:
    """Return the URL of a server in a URI of a storage."""
    scheme, separator, rest = uri.removeprefix("async+").partition("://")
    return (scheme.removeprefix("pinyon+") if scheme != "pinyon" else "redis") + separator + rest
