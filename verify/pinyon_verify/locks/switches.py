"""Faults that make another server the primary, or that only look like it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from .clustered import Clustered, Node
from .group import PATIENCE, Group, wait
from .history import SECOND, now
from .links import CLOSED, SILENT
from .server import Server
from .settings import NAMESPACE
from .watched import Sentinel, Watched
from .world import World

#: Seconds after a switch in which clients may still be told of it.
TOLD = 0.5
#: Seconds for which clients go on at most while there is no primary: longer than all that a switch waits for.
AGREED = 5 * PATIENCE


class _Switch:
    """One failover: begins when it is made, and is recorded when it is over."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.server, Group)
        self.world, self.group = world, world.server
        if isinstance(self.group, Clustered):
            self.group.turn_to(world.random.choice(self.group.tags))
        self.at, self.old = now(), world.server.primary
        world.work_on(AGREED)
        self.group.let_fail_over(wanted=True)

    def over(self, deaf: Iterable[int] = (), until: int = 0) -> None:
        """Record it. The `deaf` processes can hear of it only now, the others could at `until`."""
        time.sleep(TOLD)
        self._record(self.old, self.group.primary, deaf, until)
        self._settle()
        self.group.let_fail_over(wanted=False)
        self.world.work_on(self.world.seconds)

    def _settle(self) -> None:
        """Wait until all are in their places, and record what happens until then: on a busy machine, Sentinels may go on to
        yet another primary, and for a while have none.
        """
        primary, self.at, missed = self.group.primary, now(), 0

        def is_over() -> bool:
            nonlocal primary, missed
            serving = self.group.serving()
            if serving is None:
                missed = missed or now()
                return False
            if serving is not primary:
                self.group.primary = serving
                time.sleep(TOLD)
                self._record(primary, serving, (), 0)
            elif missed:
                self.world.fault("pause", missed)
            primary, self.at, missed = serving, now(), 0
            return self.group.is_settled() and self.group.primary is primary

        wait(is_over)

    def _record(self, old_one: Server, new_one: Server, deaf: Iterable[int], until: int) -> None:
        told, old, new = now(), self.group.index(old_one), self.group.index(new_one)
        facts = {"until": until or told, "told": told, "deaf": list(deaf), "old": old, "new": new}
        self.world.record("fault", "", self.at, kind="failover", **facts)


def fail_over(world: World) -> None:
    """A replica is made the primary. The old one grants locks until it is demoted or its clients are told."""
    switch = _Switch(world)
    _watched(world).fail_over()
    switch.over()


def fail_over_cluster(world: World) -> None:
    """A replica takes over when the primary has stopped and told it everything: nothing is lost."""
    with world.recorded("pause"):
        cluster = _clustered(world)
        cluster.fail_over()
        cluster.settle()


def move_slot(world: World) -> None:
    """The slot, with its keys, goes to another primary: nothing is lost."""
    with world.recorded("pause"):
        _clustered(world).move_slot()


def kill_primary(world: World) -> None:
    """It returns when there is another one, with its data or without them; with Sentinels as a primary at first."""
    switch = _Switch(world)
    switch.old.kill()
    switch.group.wait_for_next(switch.old)
    switch.old.start(afresh=world.random.random() < 0.5)
    switch.over()


def stop_primary(world: World) -> None:
    """It continues after the switch, where it was."""
    switch = _Switch(world)
    switch.old.pause()
    switch.group.wait_for_next(switch.old)
    time.sleep(world.random.uniform(0, 1.0))
    switch.old.resume()
    switch.over()


def split_primary(world: World) -> None:
    """The primary is cut off from its replicas and the Sentinels, perhaps together with one of these, or from all other nodes
    of its cluster. Clients still reach all of them.
    """
    _split(world, [])


def split_with_one_believed(world: World) -> None:
    """As if clients believed the one Sentinel that is cut off together with the primary: they hear of no other."""
    watched = _watched(world)
    stale = watched.sentinels[0]
    clients = [str(client.pid) for client in world.clients]
    assert watched.links
    watched.links.lead(clients, [each.port for each in watched.sentinels[1:]], stale.port)
    _split(world, [], stale=[stale], stays=5.0)


def split_all(world: World) -> None:
    """Some clients are cut off together with the primary, which the others do not reach: they hear of the next one when the
    partition ends.
    """
    clients = _processes(world)
    side = [client for client in clients if world.random.random() < 0.5]
    _split(world, side, [client for client in clients if client not in side])


def split_most(world: World) -> None:
    """All clients but one are cut off together with the primary, and hold locks there when the partition ends."""
    _split(world, [client.pid for client in world.clients[:-1]])


def _split(
    world: World,
    side: list[int],
    others: Sequence[int] = (),
    stale: Sequence[Sentinel] | None = None,
    stays: float = 0.0,
) -> None:
    """Cut the primary and these clients off until there is another one. The `others` do not reach the old one."""
    switch = _Switch(world)
    group, old = switch.group, switch.old
    if stale is None and isinstance(group, Watched):
        stale = world.random.sample(group.sentinels, world.random.randint(0, 1))
    with group.healed():
        group.isolate(side, others, beside=stale or ())
        group.wait_for_next(old)
        if isinstance(old, Node):
            # Without a majority of the primaries, it stops by itself.
            wait(lambda: not old.is_serving())
        time.sleep(TOLD)
        known = now()
        time.sleep(stays or world.random.uniform(0, 2.0))
    switch.over(side, known)


def cut_off_clients(world: World) -> None:
    """Some clients, or all, do not reach the primary. Nobody else notices, and nothing is lost."""
    watched, clients = _watched(world), _processes(world)
    some = world.random.sample(clients, world.random.randint(1, len(clients)))
    with world.recorded("pause"), watched.healed():
        watched.cut_clients(some, [watched.primary], world.random.choice([SILENT, CLOSED]))
        time.sleep(world.ttls(0.3, 3.0))


def cut_off_a_sentinel(world: World) -> None:
    """The primary dies while no client reaches one of the Sentinels: the other two are a majority."""
    watched = _watched(world)
    with watched.healed():
        _cut_off(world, watched, 1)
        kill_primary(world)


def cut_off_the_sentinels(world: World) -> None:
    """No client reaches a majority of the Sentinels. While the primary stays, nobody needs them."""
    watched = _watched(world)
    with world.recorded("sentinels"), watched.healed():
        _cut_off(world, watched, 2)
        time.sleep(world.random.uniform(0.3, 1.5))


def _cut_off(world: World, watched: Watched, sentinels: int) -> None:
    chosen = world.random.sample(watched.sentinels, sentinels)
    watched.cut_clients(_processes(world), chosen, world.random.choice([SILENT, CLOSED]))


def kill_primary_with_clocks(world: World, seconds: int) -> None:
    """The clocks of the replicas, one of which takes over, are so many seconds fast."""
    watched, before = _watched(world), now()
    world.record("fault", at=before, kind="clock", until=now() + 3600 * SECOND)
    for server, clock in zip(watched.servers, watched.clocks):
        clock.move(0 if server is watched.primary else seconds)
        # A server looks at its clock when it is asked. If it lost its primary before it looked, its link would have been down
        # since before its clock moved, for too long to be promoted by Sentinels.
        server.ask("TIME")
    kill_primary(world)


def kill_node_with_clock(world: World, seconds: int) -> None:
    """The clock of the replica that takes over is so many seconds fast; if that of its primary is, it is right again. The
    replica is started anew with this clock: a node whose clock is set back while it runs refuses to serve as a primary until
    its clock has come to when it was started.
    """
    cluster, before = _clustered(world), now()
    replica = cluster.replica()
    of_primary, of_replica = (cluster.clocks[cluster.index(node)] for node in (cluster.primary, replica))
    replica.kill()
    of_replica.move(0 if of_primary.offset else seconds)
    replica.start()
    cluster.settle()
    kill_primary(world)
    world.fault("clock", before)


def restart_primary(world: World) -> None:
    """It returns with its data, before the Sentinels call it down: nothing is lost."""
    _restart(world, "pause", afresh=False)


def restart_primary_empty(world: World) -> None:
    """It returns without its data, before the Sentinels call it down. Its replicas follow it, and lose theirs."""
    _restart(world, "restart", afresh=True)


def _restart(world: World, kind: str, *, afresh: bool) -> None:
    watched = _watched(world)
    with world.recorded(kind):
        watched.primary.kill()
        time.sleep(world.random.choice([0.0, 0.1, 0.3]))
        watched.primary.start(afresh=afresh)
        watched.settle()


def misled_by_sentinels(world: World) -> None:
    """All Sentinels tell some clients that a replica is the primary, and it lets itself be written to. It is a replica
    nevertheless, and nobody takes a lock there.
    """
    _mislead(world, ())


def misled_by_all(world: World) -> None:
    """As if clients did not look at a server's role: the replica says that it is a primary."""
    _mislead(world, (r"role\r\n\$7\r\nreplica", "role\r\n$6\r\nmaster"))


def _mislead(world: World, role: tuple[str, ...]) -> None:
    watched = _watched(world)
    replica = next(server for server in watched.servers if server is not watched.primary)
    replica.ask("CONFIG", "SET", "replica-read-only", "no")
    clients = [str(process) for process in _processes(world)]
    some = clients[: (len(clients) + 1) // 2]
    assert watched.links
    with world.recorded("pause"), watched.healed():
        if role:
            watched.links.say(some, replica.port, *role)
        for sentinel in watched.sentinels:
            watched.links.say(some, sentinel.port, f"\\b{watched.primary.public}\\b", str(replica.public))
        time.sleep(world.random.uniform(1.5, 2.5))


def lose_counter(world: World) -> None:
    """A replica that never heard of the counter is made the primary."""
    watched = _watched(world)
    for server in watched.servers:
        if server is not watched.primary:
            server.ask("CONFIG", "SET", "replica-read-only", "no")
            server.ask("DEL", f"{{{NAMESPACE}}}:#f")
            server.ask("CONFIG", "SET", "replica-read-only", "yes")
    kill_primary(world)


def _processes(world: World) -> list[int]:
    return [client.pid for client in world.running()]


def _watched(world: World) -> Watched:
    assert isinstance(world.server, Watched)
    return world.server


def _clustered(world: World) -> Clustered:
    assert isinstance(world.server, Clustered)
    world.server.turn_to(world.random.choice(world.server.tags))
    return world.server
