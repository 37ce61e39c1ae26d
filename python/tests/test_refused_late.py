"""A connection that is refused after a while, as by another machine, in every concurrency model."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Memcached

import pinyon

Connect = Callable[..., Any]


@contextlib.contextmanager
def refusing_late(port: int, after: float = 0.2) -> Iterator[None]:
    """Makes a port ignore connections, and refuse them a second later: when clients retry, nothing listens."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(4):
            # Fills the listener's queue.
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(("127.0.0.1", port))
        closing = threading.Timer(after, listener.close)
        closing.start()
        try:
            yield
        finally:
            closing.join()


@every_model
async def test_a_server_that_refused_late_is_in_use_when_it_is_back(model: Model, connect: Connect) -> None:
    port = free_port()
    cache = connect(f"127.0.0.1:{port}", failover=False, connect_timeout=10)
    for _ in range(2):
        with refusing_late(port), pytest.raises((pinyon.ConnectError, pinyon.ServerDown), match="refused"):
            await cache.get("key")
    with Memcached(port=port) as server:
        while not await cache.using(on_failure="miss").set("key", "value"):
            await model.sleep(0.05)
        assert server.port == port
        assert await cache.get("key") == "value"


@every_model
async def test_an_address_that_refused_late_is_followed_by_the_next(model: Model, connect: Connect) -> None:
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    with Memcached(host="::1") as server:
        cache = connect(f"localhost:{server.port}", connect_timeout=10)
        with refusing_late(server.port):
            assert await model.gather(cache.set(f"key:{n}", n) for n in range(20)) == [True] * 20
        assert await model.gather(cache.get(f"key:{n}") for n in range(20)) == list(range(20))
        assert await cache.get("key:0") == 0
