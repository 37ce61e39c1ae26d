"""Django's caches in every concurrency model, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Asyncio, Gevent, Model
from servers import Memcached

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon.frameworks.django import _CLIENTS, PinyonCache

Connect = Callable[..., Any]
ANY_OPTIONS = {"timeout": 20, "connect_timeout": 20}


class CooperativeCache(PinyonCache):
    """A cache as in a process that gevent has patched."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = pinyon.gevent.Client


class Scenario:
    """A cache in any model: ``await cache.get(…)`` is ``aget`` in event loops, ``get`` in threads and greenlets."""

    def __init__(self, model: Model, cache: PinyonCache) -> None:
        self.prefix = "a" if isinstance(model, Asyncio) else ""
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            outcome = getattr(self.cache, self.prefix + name)(*arguments, **settings)
            return await outcome if self.prefix else outcome

        return call


@pytest.fixture(autouse=True)
def _clients() -> Iterator[None]:
    """Closes the clients that the process keeps: other tests have other servers at the same addresses."""
    yield
    for _, client in _CLIENTS:
        client.close()
    _CLIENTS.clear()


def cache_on(*servers: Memcached | str, **options: Any) -> PinyonCache:
    """Makes a cache like Django, which has one for each thread and request."""
    locations = [getattr(server, "address", server) for server in servers]
    return PinyonCache(locations, {"OPTIONS": {**ANY_OPTIONS, **options}})


@pytest.fixture
def cached_on(model: Model) -> Callable[..., Scenario]:
    def make(*servers: Memcached | str, **options: Any) -> Scenario:
        locations = [getattr(server, "address", server) for server in servers]
        backend = CooperativeCache if isinstance(model, Gevent) else PinyonCache
        return Scenario(model, backend(locations, {"OPTIONS": {**ANY_OPTIONS, **options}}))

    return make
