"""Faults: each function injects one into the world at a suitable moment, and records it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .history import SECOND, now
from .observer import lock_key, process_of, scan
from .resp import ServerSaid
from .settings import NAMESPACE

if TYPE_CHECKING:
    from .world import Client, World

#: How long to look for a process in the right state, in seconds.
LOOK = 1.0


def _find(world: World, choose: Callable[[], Client | None]) -> Client | None:
    deadline = now() + int(LOOK * SECOND)
    while now() < deadline:
        found = choose()
        if found is not None:
            return found
        time.sleep(0.001)
    return None


def _longer_than_ttl(world: World) -> float:
    return world.random.uniform(0.3, 3.0) * world.cell.clients[0].ttl


def kill_holder(world: World) -> None:
    client = _find(world, world.holder)
    if client:
        world.kill(client)


def kill_waiter(world: World) -> None:
    client = _find(world, world.waiter)
    if client:
        world.kill(client)


def kill_granted(world: World) -> None:
    """Kill a waiter that was granted its names while it was stopped."""
    client = _find(world, world.waiter)
    if client:
        with world.stopped(client):
            _until_granted(world, client)
        world.kill(client)


def stop_holder(world: World) -> None:
    client = _find(world, world.holder)
    if client:
        with world.stopped(client):
            time.sleep(_longer_than_ttl(world))


def stop_waiter(world: World) -> None:
    client = _find(world, world.waiter)
    if client:
        with world.stopped(client):
            time.sleep(_longer_than_ttl(world))


def stop_granted(world: World) -> None:
    """Stop a waiter until it is granted its names, and then for about as long as it holds them, or longer."""
    client = _find(world, world.waiter)
    if client:
        with world.stopped(client):
            _until_granted(world, client)
            time.sleep(world.random.uniform(0.5, 1.5) * world.cell.clients[0].ttl)


def _any(world: World) -> Client:
    return world.random.choice([client for client in world.clients if client.is_running()])


def kill_any(world: World) -> None:
    world.kill(_any(world))


def stop_any(world: World) -> None:
    with world.stopped(_any(world)):
        time.sleep(_longer_than_ttl(world))


def _until_granted(world: World, client: Client) -> None:
    deadline = now() + int(LOOK * SECOND)
    connection = world.server.connect()
    try:
        while now() < deadline:
            if any(process_of(seen.attempt) == client.pid for seen in scan(connection, world.names)):
                return
            time.sleep(0.001)
    finally:
        connection.close()


def pause_server(world: World) -> None:
    before = now()
    world.server.pause()
    time.sleep(_longer_than_ttl(world))
    world.server.resume()
    world.fault("pause", before)


def restart_server(world: World) -> None:
    before = now()
    world.server.kill()
    time.sleep(world.random.choice([0.0, 0.1, 1.0]))
    world.server.start()
    world.fault("restart", before)


def flush_scripts(world: World) -> None:
    _forget(world, "SCRIPT")


def flush_functions(world: World) -> None:
    _forget(world, "FUNCTION")


def _forget(world: World, what: str) -> None:
    before = now()
    world.server.ask(what, "FLUSH")
    world.fault("forget", before)


def flush_all(world: World) -> None:
    before = now()
    world.server.ask("FLUSHALL")
    world.fault("flush", before)


def evict(world: World) -> None:
    """Memory is short for a moment, and the server evicts whatever it likes."""
    before = now()
    used = world.server.fact("memory", "used_memory")
    evicted = world.server.fact("stats", "evicted_keys")
    world.server.ask("CONFIG", "SET", "maxmemory", used + 200_000)
    number = 0
    while number < 200 and world.server.fact("stats", "evicted_keys") < evicted + 3:
        with contextlib.suppress(ServerSaid):
            world.server.ask("SET", f"junk:{number}", "x" * 50_000)
        number += 1
    world.server.ask("CONFIG", "SET", "maxmemory", 0)
    world.server.ask("DEL", *(f"junk:{each}" for each in range(number + 1)))
    world.fault("evict", before)


def delete_locks(world: World) -> None:
    """Release names by force, as an operator would."""
    names = world.random.sample(world.names, world.random.randint(1, 3))
    before = now()
    world.server.ask("DEL", *map(lock_key, names))
    world.fault("delete", before, names=names)


def delete_queue(world: World) -> None:
    """No lock is touched: the waiters queue again, and the counter continues from the clock."""
    before = now()
    keys = [f"{{{NAMESPACE}}}:{key}" for key in world.random.sample(["#q", "#w", "#f"], 1)]
    world.server.ask("DEL", *keys)
    world.fault("queue", before)


def move_clock_on(world: World) -> None:
    _move_clock(world, 60)


def move_clock_back(world: World) -> None:
    _move_clock(world, -3600)


def move_client_clocks(world: World) -> None:
    """Wall clocks of clients jump, each differently; no client reads them."""
    before = now()
    for clock in world.clocks:
        clock.move(world.random.randint(-7200, 7200))
    world.fault("client clocks", before)


def _move_clock(world: World, seconds: int) -> None:
    before = now()
    assert world.clock is not None
    world.clock.move(seconds)
    time.sleep(1)
    world.clock.move(0)
    # Data written under the other clock still exists.
    world.record("fault", at=before, kind="clock", until=world.until + 60 * SECOND)
