"""Interrupts as a lock or lease is granted: nothing stays locked or leased, whatever moment they choose."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from gate import Gate
from servers import Memcached, Redis
from waiting import wait_until

import pinyon

PACKAGE = os.path.dirname(pinyon.__file__)
#: Much longer than a test: what is left stays.
LEFT = 600
PATIENT: dict[str, Any] = {"connect_timeout": 30, "command_timeout": 30}


class Interrupted(BaseException):
    """Raised at callers."""


@pytest.fixture
def locks(redis: Redis) -> Iterator[pinyon.Locks]:
    with pinyon.Locks(redis.url, ttl=LEFT, **PATIENT) as locks:
        locks.status("warm")
        yield locks


def at_each_moment(act: Callable[[], Any]) -> Iterator[int]:
    """Acts, and raises where Python looks for interrupts: after its first call, the second, until all are done."""
    for moment in range(10_000):
        left, interrupted = moment, False

        def strike(frame: FrameType, event: str, _: object) -> None:
            nonlocal left, interrupted
            if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
                left -= 1
                if left < 0 and not interrupted:
                    interrupted = True
                    sys.setprofile(None)
                    raise Interrupted

        sys.setprofile(strike)
        try:
            act()
        except Interrupted:
            pass
        finally:
            sys.setprofile(None)
        if not interrupted:
            return
        yield moment


def enter(locks: pinyon.Locks, _: list[pinyon.Held | None]) -> None:
    with locks.lock("a"):
        pass


def call(locks: pinyon.Locks, _: list[pinyon.Held | None]) -> None:
    locks.synchronized("a")(lambda: None)()


def acquire(locks: pinyon.Locks, hands: list[pinyon.Held | None]) -> None:
    hands.append(locks.lock("a").acquire())


def acquire_and_be_told(locks: pinyon.Locks, hands: list[pinyon.Held | None]) -> None:
    hands.append(locks.lock("a", on_lost=lambda _: None).acquire())


def try_lock(locks: pinyon.Locks, hands: list[pinyon.Held | None]) -> None:
    hands.append(locks.try_lock("a"))


@pytest.mark.parametrize("way", [enter, call, acquire, acquire_and_be_told, try_lock])
def test_a_lock_is_not_left_at_any_moment(locks: pinyon.Locks, way: Callable[..., None]) -> None:
    hands: list[pinyon.Held | None] = []
    moments = 0
    for _ in at_each_moment(lambda: way(locks, hands)):
        moments += 1
        assert not hands
        wait_until(lambda: not locks.is_locked("a"))
        with locks.lock("a", timeout=30):
            pass
    assert moments > 0


def test_a_lock_that_stays_is_not_left_at_any_moment(locks: pinyon.Locks) -> None:
    """The object is kept, as a lock of a whole program is; so is what others have acquired through it."""
    lock = locks.lock("a", reentrant=True)
    held = lock.acquire()
    moments = 0
    for _ in at_each_moment(lambda: lock.acquire()):
        moments += 1
        assert not held.is_lost
        assert locks.owner("a") is not None
    assert moments > 3
    assert lock.release()
    assert lock.release()
    wait_until(lambda: not locks.is_locked("a"))


def test_a_refusal_releases_nothing(locks: pinyon.Locks) -> None:
    lock = locks.lock("a")
    held = lock.acquire()
    with pytest.raises(pinyon.AlreadyHeld):
        lock.acquire()
    assert locks.try_lock("a") is None
    assert held.release()


def enter_lease(client: pinyon.Client, key: str) -> None:
    with client.lease(key, lease=LEFT):
        pass


def give_back(client: pinyon.Client, key: str) -> None:
    client.lease(key, lease=LEFT).give_back()


def make(client: pinyon.Client, key: str) -> None:
    client.get_or_set(key, lambda: "made", ttl=LEFT, lease=LEFT)


def fail(client: pinyon.Client, key: str) -> None:
    def make() -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        client.get_or_set(key, make, ttl=LEFT, lease=LEFT)


@pytest.mark.parametrize("way", [enter_lease, give_back, make, fail])
def test_a_lease_is_not_left_at_any_moment(
    client: pinyon.Client, server: Memcached, way: Callable[[pinyon.Client, str], Any]
) -> None:
    client.get("warm")
    keys = (f"key:{number}" for number in range(10_000))
    key = ""

    def act() -> None:
        nonlocal key
        key = next(keys)
        way(client, key)

    moments = 0
    with pinyon.Client(server.address, timeout=30, connect_timeout=30) as others:
        for _ in at_each_moment(act):
            moments += 1
            wait_until(lambda: others.lease(key, lease=LEFT).state is not pinyon.Outcome.FILLING)
    assert moments > 5


def test_a_lease_that_is_looked_at_stays_although_its_object_does_not(client: pinyon.Client) -> None:
    assert client.lease("key", lease=LEFT).state is pinyon.Outcome.WON
    assert client.lease("key", lease=LEFT).state is pinyon.Outcome.FILLING
    assert client.set("key", "value")


@pytest.mark.parametrize("use", [give_back, make])
def test_a_lease_that_is_granted_after_an_interrupt_is_given_back(
    gate: Gate, roomy: Memcached, use: Callable[[pinyon.Client, str], Any]
) -> None:
    def handler(*_: object) -> None:
        raise Interrupted

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        with pinyon.Client(gate.address, timeout=100, connect_timeout=100) as client:
            client.get("warm")
            held = gate.hold(replies=0)

            def interrupt() -> None:
                assert held.wait(60)
                os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(Interrupted):
                use(client, "key")
            thread.join()
            with pinyon.Client(roomy.address, timeout=30, connect_timeout=30) as others:
                assert others.lease("key", lease=LEFT).state is pinyon.Outcome.FILLING
                gate.release()
                wait_until(lambda: others.lease("key", lease=LEFT).state is pinyon.Outcome.WON)
    finally:
        signal.signal(signal.SIGUSR1, previous)
