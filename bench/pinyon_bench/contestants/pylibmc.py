"""pylibmc: Python over libmemcached."""

from __future__ import annotations

from typing import Any

import pylibmc

from ..calls import Calls
from ..protocol import Kind

BEHAVIORS = {"tcp_nodelay": True, "ketama_weighted": True}
QUIET_BEHAVIORS = {**BEHAVIORS, "no_block": True, "buffer_requests": True, "_noreply": True}
BUFFERED = "error 32 "


class PylibmcAdapter:
    """Text protocol with weighted ketama; quiet rows buffer requests and ask for no reply."""

    def version(self) -> str:
        return f"{pylibmc.__version__} (libmemcached {pylibmc.libmemcached_version})"

    def configuration(self) -> str:
        return "text protocol, tcp_nodelay, ketama_weighted; quiet: no_block, buffer_requests, _noreply"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        client = pylibmc.Client(servers, behaviors=QUIET_BEHAVIORS if quiet else BEHAVIORS)

        def incr_or_create(key: str, delta: int, initial: int) -> Any:
            try:
                return client.incr(key, delta)
            except pylibmc.NotFound:
                return initial if client.add(key, initial) else client.incr(key, delta)

        def delete_buffered(key: str) -> Any:
            """pylibmc raises for a delete that libmemcached has buffered, although nothing is wrong."""
            try:
                return client.delete(key)
            except pylibmc.Error as error:
                if not str(error).startswith(BUFFERED):
                    raise
                return True

        return Calls(
            get=client.get,
            set=client.set,
            close=client.disconnect_all,
            add=client.add,
            replace=client.replace,
            delete=delete_buffered if quiet else client.delete,
            get_many=client.get_multi,
            incr=client.incr,
            decr=client.decr,
            incr_or_create=incr_or_create,
        )


ADAPTER = PylibmcAdapter()
