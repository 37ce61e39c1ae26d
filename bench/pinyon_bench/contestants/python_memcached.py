"""python-memcached: pure Python, the oldest."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import memcache

from ..calls import Calls
from ..protocol import Kind


class PythonMemcachedAdapter:
    """Its defaults with the highest pickle protocol."""

    def version(self) -> str:
        return str(memcache.__version__)

    def configuration(self) -> str:
        return f"defaults (no TCP_NODELAY), pickle protocol {pickle.HIGHEST_PROTOCOL}; quiet: noreply"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        client = memcache.Client(servers, pickleProtocol=pickle.HIGHEST_PROTOCOL)

        def incr_or_create(key: str, delta: int, initial: int) -> Any:
            value = client.incr(key, delta)
            if value is not None:
                return value
            return initial if client.add(key, initial) else client.incr(key, delta)

        return Calls(
            get=client.get,
            set=partial(client.set, noreply=True) if quiet else client.set,
            close=client.disconnect_all,
            add=partial(client.add, noreply=True) if quiet else client.add,
            replace=partial(client.replace, noreply=True) if quiet else client.replace,
            delete=partial(client.delete, noreply=True) if quiet else client.delete,
            get_many=client.get_multi,
            incr=client.incr,
            decr=client.decr,
            incr_or_create=incr_or_create,
        )


ADAPTER = PythonMemcachedAdapter()
