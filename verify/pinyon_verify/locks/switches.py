"""Faults that make another server the primary, or that only look like it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .group import Group
from .history import now
from .links import CLOSED, SILENT
from .server import Server
from .watched import DOWN_AFTER, NEVER_DOWN, Watched

if TYPE_CHECKING:
    from .world import World

#: Seconds after a switch in which clients may still be told of it.
TOLD = 0.5


class _Switch:
    """One failover: begins when it is made, and is recorded when it is over."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.server, Group)
        self.world, self.group = world, world.server
        self.at, self.old = now(), world.server.primary

    def over(self, deaf: Iterable[int] = (), until: int = 0) -> None:
        """Record it. The `deaf` processes can hear of it only now, the others could at `until`."""
        time.sleep(TOLD)
        places = {"old": self.group.index(self.old), "new": self.group.index(self.group.primary)}
        told, deaf = now(), list(deaf)
        self.world.record("fault", at=self.at, kind="failover", until=until or told, told=told, deaf=deaf, **places)
        self.group.settle()


def fail_over(world: World) -> None:
    """A replica is made the primary. The old one grants locks until it is demoted or its clients are told."""
    switch = _Switch(world)
    _watched(world).fail_over()
    switch.over()


def kill_primary(world: World) -> None:
    """It returns when there is another one, as a primary at first, with its data or without them."""
    switch = _Switch(world)
    switch.old.kill()
    _watched(world).wait_for_next(switch.old)
    switch.old.start(afresh=world.random.random() < 0.5)
    switch.over()


def stop_primary(world: World) -> None:
    """It continues after the switch, where it was."""
    switch = _Switch(world)
    switch.old.pause()
    _watched(world).wait_for_next(switch.old)
    time.sleep(world.random.uniform(0, 1.0))
    switch.old.resume()
    switch.over()


def split_primary(world: World) -> None:
    """The primary is cut off from its replicas and the Sentinels. Clients still reach all of them."""
    _split(world, [])


def split_all(world: World) -> None:
    """Some clients are cut off together with the primary: they hear of the next one when the partition ends."""
    _split(world, [client.pid for client in world.clients if client.is_running() and world.random.random() < 0.5])


def _split(world: World, side: list[int]) -> None:
    switch, watched = _Switch(world), _watched(world)
    watched.isolate(side)
    watched.wait_for_next(switch.old)
    time.sleep(TOLD)
    known = now()
    time.sleep(world.random.uniform(0, 2.0))
    assert watched.links
    watched.links.heal()
    switch.over(side, known)


def cut_off_clients(world: World) -> None:
    """Some clients, or all, do not reach the primary. Nobody else notices, and nothing is lost."""
    watched, before = _watched(world), now()
    clients = [client.pid for client in world.clients if client.is_running()]
    some = world.random.sample(clients, world.random.randint(1, len(clients)))
    watched.cut_clients(some, [watched.primary], world.random.choice([SILENT, CLOSED]))
    time.sleep(world.random.uniform(0.3, 3.0) * world.cell.clients[0].ttl)
    assert watched.links
    watched.links.heal()
    world.fault("pause", before)


def cut_off_a_sentinel(world: World) -> None:
    """The primary dies while no client reaches one of the Sentinels: the other two are a majority."""
    watched = _watched(world)
    clients = [client.pid for client in world.clients if client.is_running()]
    watched.cut_clients(clients, [world.random.choice(watched.sentinels)], world.random.choice([SILENT, CLOSED]))
    kill_primary(world)
    assert watched.links
    watched.links.heal()


def cut_off_the_sentinels(world: World) -> None:
    """No client reaches a majority of the Sentinels. While the primary stays, nobody needs them."""
    watched, before = _watched(world), now()
    clients = [client.pid for client in world.clients if client.is_running()]
    watched.cut_clients(clients, world.random.sample(watched.sentinels, 2), world.random.choice([SILENT, CLOSED]))
    time.sleep(world.random.uniform(0.3, 1.5))
    assert watched.links
    watched.links.heal()
    world.fault("sentinels", before)


def kill_primary_with_clock_on(world: World) -> None:
    """The clocks of the replicas, one of which takes over, are a minute fast."""
    _with_clocks(world, 60)


def kill_primary_with_clock_back(world: World) -> None:
    """The clocks of the replicas are an hour slow."""
    _with_clocks(world, -3600)


def _with_clocks(world: World, seconds: int) -> None:
    watched, before = _watched(world), now()
    world.record("fault", at=before, kind="clock", until=world.until + 60_000_000_000)
    for server, clock in zip(watched.servers, watched.clocks):
        clock.move(0 if server is watched.primary else seconds)
    kill_primary(world)


def restart_primary(world: World) -> None:
    """It returns with its data, before the Sentinels call it down: nothing is lost."""
    before = now()
    _restart(world, afresh=False)
    world.fault("pause", before)


def restart_primary_empty(world: World) -> None:
    """It returns without its data, before the Sentinels call it down. Its replicas follow it, and lose theirs."""
    before = now()
    _restart(world, afresh=True)
    world.fault("restart", before)


def _restart(world: World, *, afresh: bool) -> None:
    watched = _watched(world)
    watched.let_down_after(NEVER_DOWN)
    watched.primary.kill()
    time.sleep(world.random.choice([0.0, 0.1, 0.3]))
    watched.primary.start(afresh=afresh)
    watched.settle()
    watched.let_down_after(DOWN_AFTER)


def _watched(world: World) -> Watched:
    assert isinstance(world.server, Watched)
    return world.server


def servers_of(world: World) -> list[Server]:
    assert isinstance(world.server, Group)
    return world.server.servers
