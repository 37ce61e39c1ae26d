"""Faults of the servers of a quorum. Those of a minority excuse nothing, and nobody waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from . import links
from .history import now
from .server import Server
from .settings import NAMESPACE
from .several import MINORITY, SERVERS, Several
from .world import World

HOW = (links.SILENT, links.CLOSED, links.DEAF)
#: How far clocks jump, in seconds. Locks that were taken meanwhile stay for as long at most.
JUMP = 2


def kill_minority(world: World) -> None:
    """They return with their data or without."""
    _restart(world, minority(world), lambda: world.random.random() < 0.5)


def kill_majority(world: World) -> None:
    """They return with their data."""
    _away(world, lambda: _restart(world, majority(world), lambda: False))


def kill_majority_empty(world: World) -> None:
    """They return without their data, and have no vote until all locks that they forgot have ended."""
    _away(world, lambda: _restart(world, majority(world), lambda: True))


def restart_in_turn(world: World) -> None:
    """All of them, one after the other, return without their data, each when the one before may vote again."""
    for server in _several(world).servers:
        _restart(world, [server], lambda: True)
        time.sleep(world.cell.clients[0].ttl + 1.0)


def stop_minority(world: World) -> None:
    _stop(world, minority(world))


def stop_majority(world: World) -> None:
    _away(world, lambda: _stop(world, majority(world)))


def cut_minorities(world: World) -> None:
    """Each client loses its links to some servers: another minority for each."""
    several = _several(world)
    with world.recorded("minority"), several.healed():
        for client in world.running():
            several.cut_clients([client.pid], minority(world), world.random.choice(HOW))
        time.sleep(world.ttls(0.3, 3.0))


def split(world: World) -> None:
    """Some clients reach only a minority of the servers, the others only the majority."""
    several, before = _several(world), now()
    few, how = minority(world), world.random.choice((links.SILENT, links.CLOSED))
    many = [server for server in several.servers if server not in few]
    running = [client.pid for client in world.running()]
    alone = set(world.random.sample(running, world.random.randint(1, len(running) - 1)))
    with several.healed():
        several.cut_clients(alone, many, how)
        several.cut_clients(set(running) - alone, few, how)
        time.sleep(world.ttls(0.5, 4.0))
    for client in alone:
        world.fault("cut off", before, client)


def move_clocks_of_minority(world: World) -> None:
    """Always the same, since what jumps forward forgets, and what jumps back remembers for too long."""
    several = _several(world)
    with world.recorded("minority"):
        for clock in several.clocks[:MINORITY]:
            clock.move(world.random.choice((-3600, JUMP)))
        time.sleep(1.0)
        for clock in several.clocks:
            clock.move(0)


def _restart(world: World, servers: list[Server], afresh: Callable[[], bool]) -> None:
    with world.recorded("minority"):
        for server in servers:
            server.kill()
        time.sleep(world.random.choice([0.0, 0.1, 1.0]))
        for server in servers:
            server.start(afresh=afresh())


def _stop(world: World, servers: list[Server]) -> None:
    with world.recorded("minority"):
        for server in servers:
            server.pause()
        time.sleep(world.ttls(0.3, 3.0))
        for server in servers:
            server.resume()


def _away(world: World, how: Callable[[], None]) -> None:
    """Without a majority, everyone waits: until its servers may vote again, and then for the next second to begin, since
    servers tell their age in seconds.
    """
    with world.recorded("pause"):
        how()
        time.sleep(world.cell.clients[0].ttl + 2.0)


def minority(world: World) -> list[Server]:
    return world.random.sample(_several(world).servers, world.random.randint(1, MINORITY))


def majority(world: World) -> list[Server]:
    return world.random.sample(_several(world).servers, world.random.randint(MINORITY + 1, SERVERS))


def _several(world: World) -> Several:
    assert isinstance(world.server, Several)
    return world.server


def vote_twice(world: World) -> None:
    """As if two servers were a majority: each client takes two for all, not the same as the others."""
    several = _several(world)
    assert several.links
    first, last = several.servers[:MINORITY], several.servers[-MINORITY:]
    for index, client in enumerate(world.clients):
        for number, server in enumerate(several.servers):
            real = (first, last)[index % 2][number % MINORITY]
            # Each says that it is another one, and has locks of its own for each server that it stands for.
            several.links.say([str(client.pid)], server.port, r"run_id:\w{4}", f"run_id:{number:04}")
            several.links.say([str(client.pid)], server.port, rf"\{{{NAMESPACE}\}}", f"{{{NAMESPACE[:-1]}{number}}}")
            several.links.lead([str(client.pid)], [server.port], real.port)


def young_ones_vote(world: World) -> None:
    """As if servers that have just started could vote. A holder hears nothing of it, and believes in what it holds."""
    several = _several(world)
    assert several.links
    for client in world.clients:
        for server in several.servers:
            several.links.say([str(client.pid)], server.port, r"uptime_in_seconds:\d", "uptime_in_seconds:9")
    holder = None
    while holder is None and now() < world.until:
        time.sleep(0.05)
        holder = world.holder()
    if holder:
        several.cut_clients([holder.pid], several.servers, links.SILENT)
    for server in several.servers:
        server.kill()
    for server in several.servers:
        server.start(afresh=True)
    time.sleep(2.0)
    several.links.heal()
