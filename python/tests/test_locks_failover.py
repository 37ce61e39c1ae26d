"""Each row of the table "at a failover": a primary, two replicas and three Sentinels, with a proxy for each link.

Each test says which rule it guards: it fails when that rule alone is broken. For most of them,
`locks/machine/tests/reconnecting` shows the same without servers.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pinyon_verify.locks.group import wait
from pinyon_verify.locks.links import CLOSED, DEAF, SILENT
from pinyon_verify.locks.server import Server
from pinyon_verify.locks.watched import Watched

import pinyon

#: The longest time for anything, in seconds.
LONG = 60.0
#: Locks outlive these tests, and waiters say nothing by themselves.
SETTINGS: dict[str, Any] = {
    "ttl": 600,
    "timeout": LONG,
    "heartbeat": 600,
    "command_timeout": LONG,
    "connect_timeout": LONG,
}
QUEUE = "{pinyon}:#q"


def key(name: str) -> str:
    return f"{{pinyon}}:l:{name}"


class Service:
    """The servers and Sentinels, as the test process sees them."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        assert watched.links
        self.links = watched.links
        self._pool = ThreadPoolExecutor()
        self._opened: list[pinyon.Locks] = []

    @property
    def primary(self) -> Server:
        return self.watched.primary

    def locks(self, **settings: Any) -> pinyon.Locks:
        """Locks that are connected to the primary."""
        locks = pinyon.Locks(self.watched.url, **{**SETTINGS, **settings})
        self._opened.append(locks)
        locks.is_locked("nothing")
        return locks

    def begin(self, what: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._pool.submit(what, *arguments)

    def cut_off(self, how: str) -> None:
        """Cuts this process off from the primary."""
        self.links.cut([str(os.getpid())], [self.primary.port], how)

    def break_connections(self) -> None:
        """Ends this process's connections to the primary. It may make new ones."""
        self.links.say([str(os.getpid())], self.primary.port, "nobody says this", "")

    def cut_off_replicas(self) -> None:
        """What the primary does from now on, the others do not hear."""
        others = [server.source for server in self.watched.servers if server is not self.primary]
        self.links.cut(others, [self.primary.port], SILENT)

    def kill(self) -> Server:
        """Kills the primary. The Sentinels do nothing yet."""
        old = self.primary
        old.kill()
        return old

    def switch(self, old: Server) -> None:
        """Lets the Sentinels name another primary, and then no further one, however late it answers them."""
        self.watched.let_fail_over(wanted=True)
        self.watched.wait_for_next(old)
        self.watched.let_fail_over(wanted=False)
        self.watched.wait_for_next(old)

    def are_told(self, name: str) -> None:
        """Waits until the replicas know what the primary has."""
        wait(lambda: self.watched.know(key(name)))

    def has(self, name: str) -> bool:
        return bool(self.primary.ask("EXISTS", key(name)))

    def restore(self) -> None:
        for locks in self._opened:
            locks.close()
        self._opened.clear()
        self.links.heal()
        for server in self.watched.servers:
            if not server.is_running():
                server.start(afresh=True)
        self.watched.settle()
        self.watched.let_fail_over(wanted=False)
        self.primary.ask("FLUSHALL")


@pytest.fixture(scope="module")
def all_servers() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="pv-") as folder:
        watched = Watched(Path(folder))
        try:
            watched.start()
            yield Service(watched)
        finally:
            watched.stop()


@pytest.fixture
def service(all_servers: Service) -> Iterator[Service]:
    yield all_servers
    all_servers.restore()


def test_a_lock_that_the_new_primary_has_is_held_on(service: Service) -> None:
    """A lock outlives its connection (`Machine::disconnected`)."""
    held = service.locks().lock("a").acquire()
    service.are_told("a")
    service.switch(service.kill())
    assert service.locks().try_lock("a") is None
    wait(lambda: bool(held.extend(600)))
    assert held.release() is True
    assert not service.has("a")


def test_a_lock_that_the_new_primary_has_not_is_lost_long_before_its_end(service: Service) -> None:
    """What the server does not renew is lost (`Machine::prolonged`)."""
    lost = []
    locks = service.locks()
    service.cut_off_replicas()
    held = locks.lock("a", on_lost=lost.append).acquire()
    token = held.token
    service.switch(service.kill())
    wait(lambda: held.is_lost)
    wait(lambda: lost == [held])
    assert held.remaining() == 0
    with pytest.raises(pinyon.LockLost):
        held.check()
    other = service.locks().try_lock("a")
    assert other is not None
    assert other.token > token
    assert held.release() is False
    assert other.release() is True


def test_a_lock_is_renewed_on_the_new_primary_at_once(service: Service) -> None:
    """Each connection begins with renewals (`Machine::connected`), long before one is due. The value tells of them."""
    held = service.locks().lock("a").acquire()
    service.are_told("a")
    service.switch(service.kill())
    wait(lambda: b" @" in bytes(service.primary.ask("GET", key("a"))))  # type: ignore[call-overload]
    assert held.release() is True


def test_a_release_without_an_answer_is_repeated(service: Service) -> None:
    """Each connection begins with the releases under way (`Machine::connected`)."""
    held = service.locks().lock("a").acquire()
    service.are_told("a")
    service.cut_off(SILENT)
    releasing = service.begin(held.release)
    service.switch(service.kill())
    assert releasing.result(LONG) is True
    assert not service.has("a")


def test_a_request_without_an_answer_is_repeated_under_its_identity(service: Service) -> None:
    """`Machine::connected` asks as the same attempt. The replicas know that it was granted; its client does not.
    Another one would wait for what it has itself.
    """
    locks = service.locks()
    service.cut_off(DEAF)
    acquiring = service.begin(locks.lock("a").acquire)
    service.are_told("a")
    value = service.primary.ask("GET", key("a"))
    assert isinstance(value, bytes)
    service.switch(service.kill())
    held = acquiring.result(LONG)
    assert held.token == int(value.split()[1])
    assert held.release() is True
    assert not service.has("a")


def test_a_pending_request_that_does_not_wait_fails_with_its_connection(service: Service) -> None:
    """Whoever does not wait is told (`Machine::disconnected`, `Machine::extension_unanswered`, `Client::failed`)."""
    # What is not told of it would end with this time, which is longer than the test waits.
    patient = {"command_timeout": 10 * LONG}
    locks, held = service.locks(**patient), service.locks(**patient).lock("c").acquire()
    service.cut_off(DEAF)
    tries = [service.begin(locks.try_lock, "a"), service.begin(locks.lock("b", timeout=0).acquire)]
    asked = [service.begin(locks.execute, "SET", "{pinyon}:l:x", "1"), service.begin(held.extend, 6000)]
    wait(lambda: service.has("a") and service.has("b") and service.has("x"))
    old = service.kill()
    service.links.cut([str(os.getpid())], [old.port], CLOSED)
    for pending in (*tries, *asked):
        with pytest.raises(pinyon.ConnectionLost):
            pending.result(LONG)
    service.switch(old)


def test_a_pending_request_is_repeated_when_the_sentinels_tell_of_a_new_primary_first(service: Service) -> None:
    """`Machine::disconnected` with `moved`. A command of the user's is not repeated: it may have been carried out."""
    locks = service.locks()
    service.cut_off(SILENT)
    tries = [service.begin(locks.try_lock, "a"), service.begin(locks.lock("b", timeout=0).acquire)]
    running = service.begin(locks.execute, "SET", "{pinyon}:l:x", "1")
    service.switch(service.kill())
    for name, pending in zip("ab", tries):
        held = pending.result(LONG)
        assert service.has(name)
        assert held.release() is True
    with pytest.raises(pinyon.ConnectionLost):
        running.result(LONG)


def test_waiters_keep_their_places_where_the_new_primary_knows_them(service: Service) -> None:
    """A waiter asks for its place as the same attempt (`Machine::connected`)."""
    holder = service.locks().lock("a").acquire()
    waiting = []
    for count in (1, 2, 3):
        waiting.append(service.begin(service.locks().lock("a").acquire))
        wait(lambda count=count: all(server.ask("ZCARD", QUEUE) == count for server in service.watched.servers))
    service.switch(service.kill())
    # One that does not listen when its turn comes is passed over.
    wait(lambda: sum("#c:" in channel for channel in service.primary.channels()) == 4)
    assert holder.release() is True
    before = 0
    for each in waiting:
        held = each.result(LONG)
        assert held.token > before
        before = held.token
        assert [other.done() for other in waiting].count(True) == waiting.index(each) + 1
        assert held.release() is True


def test_a_waiter_that_the_new_primary_does_not_know_queues_again(service: Service) -> None:
    """A waiter that is unknown asks anew (`Machine::asked`)."""
    holder = service.locks().lock("a").acquire()
    service.are_told("a")
    waiter = service.locks()
    service.cut_off_replicas()
    waiting = service.begin(waiter.lock("a").acquire)
    wait(lambda: service.primary.ask("ZCARD", QUEUE) == 1)
    service.switch(service.kill())
    wait(lambda: service.primary.ask("ZCARD", QUEUE) == 1)
    assert not waiting.done()
    assert holder.release() is True
    assert waiting.result(LONG).release() is True


def test_a_request_waits_while_there_is_no_primary(service: Service) -> None:
    """`Machine::unreachable` fails nobody whose time is not up, whether or not the client has been served before."""
    locks, hasty = service.locks(), service.locks()
    old = service.kill()
    acquiring = service.begin(locks.lock("a").acquire)
    with pytest.raises(pinyon.Error):
        hasty.lock("b", timeout=0.2).acquire()
    # A proxy accepts a connection before it knows that the server behind it has gone.
    with pytest.raises((pinyon.ConnectError, pinyon.ConnectionLost)):
        pinyon.Locks(service.watched.url, **SETTINGS).lock("c", timeout=2).acquire()
    assert not acquiring.done()
    service.switch(old)
    assert acquiring.result(LONG).release() is True


def test_an_old_primary_that_comes_back_has_no_say(service: Service) -> None:
    """A new connection goes to whom the majority names now (`Client::led_to`)."""
    locks = service.locks()
    held = locks.lock("a").acquire()
    service.are_told("a")
    old = service.kill()
    service.switch(old)
    wait(lambda: bool(held.extend(600)))
    # As a primary, and the Sentinels do not see it.
    service.links.cut([sentinel.source for sentinel in service.watched.sentinels], [old.port], SILENT)
    old.start(afresh=True)
    service.break_connections()
    for name, client in (("b", locks), ("c", service.locks())):
        other = client.lock(name).acquire()
        assert service.has(name)
        assert other.release() is True
    assert service.locks().try_lock("a") is None
    assert held.release() is True


def test_one_sentinel_on_the_wrong_side_misleads_nobody(service: Service) -> None:
    """A majority decides (`sentinels::verdict`). The old primary grants locks, and one Sentinel still names it."""
    old, stale = service.primary, service.watched.sentinels[0]
    locks = service.locks()
    service.watched.isolate([], beside=[stale])
    service.switch(old)
    assert stale.primary() == old.public
    held = service.locks().lock("a").acquire()
    assert service.has("a")
    wait(lambda: locks.is_locked("a"))
    assert locks.try_lock("a") is None
    assert not old.ask("EXISTS", key("a"))
    assert held.release() is True
    service.links.cut([str(os.getpid())], [each.port for each in service.watched.sentinels[1:]], SILENT)
    with pytest.raises(pinyon.Error):
        pinyon.Locks(service.watched.url, **SETTINGS).lock("b", timeout=2).acquire()
    assert not old.ask("EXISTS", key("b"))


def test_no_lock_is_taken_from_a_replica(service: Service) -> None:
    """`Client::greeted` looks at the role, even if all Sentinels name the replica, and it lets itself be written to."""
    replica = next(server for server in service.watched.servers if server is not service.primary)
    replica.ask("CONFIG", "SET", "replica-read-only", "no")
    try:
        for sentinel in service.watched.sentinels:
            service.links.say([str(os.getpid())], sentinel.port, rf"\b{service.primary.public}\b", str(replica.public))
        with pytest.raises(pinyon.ConnectError, match="it is a replica, although its Sentinels name it as the primary"):
            pinyon.Locks(service.watched.url, **SETTINGS).try_lock("a")
        assert not replica.ask("EXISTS", key("a"))
    finally:
        replica.ask("CONFIG", "SET", "replica-read-only", "yes")
