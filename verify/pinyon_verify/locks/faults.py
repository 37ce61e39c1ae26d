"""Faults: each function injects one into the world at a suitable moment, and records it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

from .history import SECOND, now
from .names import lock_key
from .resp import ServerSaid
from .settings import NAMESPACE
from .world import Client, World

#: How long to look for a process in the right state, in seconds.
LOOK = 1.0


def _find(choose: Callable[[], Client | None]) -> Iterator[Client]:
    """Yield a client in this state, unless there is none in time."""
    deadline = now() + int(LOOK * SECOND)
    while now() < deadline:
        if found := choose():
            yield found
            return
        time.sleep(0.001)


def kill_holder(world: World) -> None:
    for client in _find(world.holder):
        world.kill(client)


def kill_waiter(world: World) -> None:
    for client in _find(world.waiter):
        world.kill(client)


def kill_granted(world: World) -> None:
    """Kill a waiter that was granted its names while it was stopped."""
    for client in _find(world.waiter):
        with world.stopped(client):
            _until_granted(world, client)
        world.kill(client)


def kill_any(world: World) -> None:
    world.kill(world.random.choice(world.running()))


def stop_holder(world: World) -> None:
    """Stop a holder for up to three ttls."""
    _stop(world, _find(world.holder))


def stop_waiter(world: World) -> None:
    _stop(world, _find(world.waiter))


def stop_any(world: World) -> None:
    _stop(world, [world.random.choice(world.running())])


def _stop(world: World, clients: Iterable[Client]) -> None:
    for client in clients:
        with world.stopped(client):
            time.sleep(world.ttls(0.3, 3.0))


def stop_granted(world: World) -> None:
    """Stop a waiter until it is granted its names, and then for about as long as it holds them, or longer."""
    for client in _find(world.waiter):
        with world.stopped(client):
            _until_granted(world, client)
            time.sleep(world.ttls(0.5, 1.5))


def _until_granted(world: World, client: Client) -> None:
    with contextlib.closing(world.server.connect()) as connection:
        next(_find(lambda: client if client.pid in world.holders(connection) else None), None)


def pause_server(world: World) -> None:
    with world.recorded("pause"):
        world.server.pause()
        time.sleep(world.ttls(0.3, 3.0))
        world.server.resume()


def restart_server(world: World) -> None:
    with world.recorded("restart"):
        world.server.kill()
        time.sleep(world.random.choice([0.0, 0.1, 1.0]))
        world.server.start()


def flush_scripts(world: World) -> None:
    _flush(world, "forget", "SCRIPT", "FLUSH")


def flush_functions(world: World) -> None:
    _flush(world, "forget", "FUNCTION", "FLUSH")


def flush_all(world: World) -> None:
    _flush(world, "flush", "FLUSHALL")


def _flush(world: World, kind: str, *command: str) -> None:
    with world.recorded(kind):
        world.server.ask(*command)


def evict(world: World) -> None:
    """Memory is short for a moment, and the server evicts whatever it likes."""
    with world.recorded("evict"):
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


def delete_locks(world: World) -> None:
    """Release names by force, as an operator would."""
    names = world.random.sample(world.names, world.random.randint(1, min(3, len(world.names))))
    before = now()
    world.server.ask("DEL", *map(lock_key, names))
    world.fault("delete", before, names=names)


def delete_queue(world: World) -> None:
    """No lock is touched: the waiters queue again, and the counter continues from the clock."""
    key = world.random.choice(["#q", "#w", "#f"])
    _flush(world, "queue", "DEL", f"{{{NAMESPACE}}}:{key}")


def move_clock(world: World, seconds: int) -> None:
    """The server's clock jumps by so many seconds for one."""
    before = now()
    assert world.clock is not None
    world.clock.move(seconds)
    time.sleep(1)
    world.clock.move(0)
    # Data written under the other clock still exists.
    world.record("fault", at=before, kind="clock", until=world.until + 60 * SECOND)


def move_client_clocks(world: World) -> None:
    """Wall clocks of clients jump, each differently; no client reads them."""
    with world.recorded("client clocks"):
        for clock in world.clocks:
            clock.move(world.random.randint(-7200, 7200))
