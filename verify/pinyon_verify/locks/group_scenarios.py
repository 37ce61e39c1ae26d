"""Short scenarios with a known end: a request at a failover."""

from __future__ import annotations

import concurrent.futures
import os

import pinyon

from .group import wait
from .links import DEAF
from .names import lock_key
from .settings import NAMESPACE
from .watched import Watched
from .world import World

#: Seconds within which something that needs no waiting happens, on any machine.
SOON = 15.0


def repeated_request(world: World) -> list[str]:
    """A lock is granted, the replicas know it, but its client does not: the answer is lost with the primary. The client
    asks the next one, and gets what it has.
    """
    return _repeated(world, "")


def repeated_as_another(world: World) -> list[str]:
    """As if the client asked the next primary under another identity."""
    return _repeated(world, r"(\.0:\w+:\w*)\w\b")


def _repeated(world: World, identity: str) -> list[str]:
    watched, name, me = world.server, world.names[0], [str(os.getpid())]
    assert isinstance(watched, Watched) and watched.links
    old = watched.primary
    complaints = []
    with (
        pinyon.Locks(watched.url, namespace=NAMESPACE, ttl=600.0, command_timeout=60.0, connect_timeout=60.0) as locks,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        locks.is_locked(name)
        watched.links.cut(me, [old.port], DEAF)
        acquiring = pool.submit(locks.lock(name, timeout=1.5 * SOON).acquire)
        wait(lambda: watched.know(lock_key(name)))
        value = old.ask("GET", lock_key(name))
        assert isinstance(value, bytes)
        watched.let_fail_over(wanted=True)
        old.kill()
        if identity:
            for server in watched.servers:
                watched.links.say(me, server.port, identity, r"\g<1>z")
        watched.wait_for_next(old)
        try:
            held = acquiring.result(SOON)
        except (concurrent.futures.TimeoutError, pinyon.Error) as error:
            complaints.append(f"a repeated request did not get what it had been granted: {error!r}")
        else:
            if held.token != int(value.split()[1]):
                complaints.append("a repeated request was granted a second lock")
            if not held.release():
                complaints.append("what a repeated request got could not be released")
        watched.links.heal()
        old.start(afresh=True)
        watched.settle()
        if not complaints and watched.ask("EXISTS", lock_key(name)):
            complaints.append("what a repeated request got was not released")
        watched.let_fail_over(wanted=False)
        watched.ask("FLUSHALL")
    return complaints
