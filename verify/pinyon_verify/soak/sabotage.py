"""Clients that do what Pinyon must not: do the checks find it?"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: One in so many gets goes wrong.
ONE_IN = 200


class _Wrong:
    """A client that passes everything on, but answers some gets wrongly."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def get(self, key: str) -> Any:
        self.count += 1
        return await (self.instead(key) if self.count % ONE_IN == 0 else self.client.get(key))

    async def instead(self, key: str) -> Any:
        raise NotImplementedError


class _AnothersValue(_Wrong):
    async def get(self, key: str) -> Any:
        self.last = getattr(self, "asked", key)
        self.asked = key
        return await super().get(key)

    async def instead(self, key: str) -> Any:
        return await self.client.get(self.last)


class _OldValue(_Wrong):
    """Returns the first value of each key, like a cache inside a client."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.first: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        value = await super().get(key)
        return self.first.setdefault(key, value) if value is not None else None

    async def instead(self, key: str) -> Any:
        return await self.client.get(key)


class _TornValue(_Wrong):
    async def instead(self, key: str) -> Any:
        value = await self.client.get(key)
        return value and value[:-1]


class _UnknownError(_Wrong):
    async def instead(self, key: str) -> Any:
        raise KeyError(key)


class _Leak(_Wrong):
    kept: list[socket.socket] = []

    async def instead(self, key: str) -> Any:
        self.kept.append(socket.socket())
        return await self.client.get(key)


@dataclass(frozen=True)
class Sabotage:
    """What the client does wrong, and the finding that must report it."""

    make: Callable[[Any], Any]
    found_by: str


SABOTAGES = {
    "anothers-value": Sabotage(_AnothersValue, "identity"),
    "torn-value": Sabotage(_TornValue, "identity"),
    "old-value": Sabotage(_OldValue, "revival"),
    "unknown-error": Sabotage(_UnknownError, "error"),
    "leak": Sabotage(_Leak, "descriptors"),
}
