"""A forked child makes its own connections and does not affect the parent."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import multiprocessing
import os
import pickle
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from servers import Memcached

import pinyon

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(work: Callable[[], Any], meanwhile: Callable[[], Any] = lambda: None, within: float = 100) -> Any:
    """Runs ``work`` in a forked child, and ``meanwhile`` in the parent. Returns or raises what ``work`` did."""
    with tempfile.TemporaryFile("w+") as trace:
        return _in_child(work, meanwhile, within, trace)


def _in_child(work: Callable[[], Any], meanwhile: Callable[[], Any], within: float, trace: IO[str]) -> Any:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            faulthandler.register(signal.SIGUSR1, trace)
            try:
                outcome = (True, work())
            except BaseException as error:
                outcome = (False, error)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(outcome, pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    try:
        meanwhile()
        with os.fdopen(reading, "rb") as pipe:
            if not select.select([pipe], [], [], within)[0]:
                os.kill(child, signal.SIGUSR1)
                time.sleep(1)
                trace.seek(0)
                raise AssertionError(f"the child hangs; {trace.read() or 'it says nothing'}")
            succeeded, result = pickle.load(pipe)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not succeeded:
        raise result
    return result


def sockets() -> set[str]:
    """This process's open sockets, by inode."""
    links = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.add(os.readlink(descriptor))
    return {link for link in links if link.startswith("socket:")}


def check_values(client: pinyon.Client, name: str, turns: int) -> None:
    """Stores and reads values that identify the process and thread."""
    for turn in range(turns):
        key, value = f"{name}:{turn % 10}", f"{name} in turn {turn}" * (turn % 3 * 500 + 1)
        assert client.set(key, value)
        assert client.get(key) == value
        assert client.get_many([key, "missing"]) == {key: value}


def test_a_child_uses_its_parents_client_on_connections_of_its_own(own_server: Memcached) -> None:
    before = sockets()
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        client.set("key", "value")
        inherited = sockets() - before
        assert len(inherited) == 1

        def child() -> tuple[Any, set[str], bool]:
            return client.get("key"), sockets() & inherited, own_server.has_connections(2)

        value, kept, has_its_own = in_child(child)
        assert value == "value"
        assert kept == set()
        assert has_its_own
        assert client.get("key") == "value"
        assert sockets() - before == inherited
        assert own_server.has_connections(1)
        assert own_server.statistic("total_connections") < 12


def test_a_child_that_never_uses_the_client_leaves_it_alone(client: pinyon.Client) -> None:
    client.set("key", "value")
    assert in_child(lambda: "done") == "done"
    assert client.get("key") == "value"


def test_parent_and_child_at_once_never_see_each_others_values(four: list[Memcached]) -> None:
    for servers in (four[:1], four):
        with pinyon.Client([server.address for server in servers], timeout=10, connect_timeout=10) as client:
            check_values(client, "parent", 20)
            in_child(
                lambda client=client: check_values(client, "child", 300),
                lambda client=client: check_values(client, "parent", 300),
            )
            check_values(client, "parent", 20)


def test_a_fork_while_other_threads_use_the_client(own_server: Memcached) -> None:
    over = threading.Event()
    failures: list[BaseException] = []
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10, max_connections=4) as client:

        def work(name: str) -> None:
            while not over.is_set():
                try:
                    check_values(client, name, 10)
                except BaseException as error:
                    failures.append(error)
                    return

        threads = [threading.Thread(target=work, args=(f"thread{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        try:
            for number in range(15):
                in_child(lambda number=number: check_values(client, f"child{number}", 20))
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert failures == []
        assert own_server.connections() <= 4


def test_a_fork_while_other_threads_meet_failures(memcached: Memcached) -> None:
    over = threading.Event()
    client = pinyon.Client([memcached.address, "127.0.0.1:1"], timeout=10, connect_timeout=10)

    def work() -> None:
        while not over.is_set():
            with contextlib.suppress(pinyon.Error):
                pinyon.Client("127.0.0.1:1").get("key")
            check_values(client, "thread", 5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(15):
            in_child(lambda number=number: check_values(client, f"child{number}", 10))
    finally:
        over.set()
        for thread in threads:
            thread.join()


class SlowFile(io.StringIO):
    """An output for log handlers, locked during each write like a file. A child may find it locked forever."""

    def __init__(self) -> None:
        super().__init__()
        self._writing = threading.Lock()

    def write(self, line: str) -> int:
        with self._writing:
            time.sleep(0.6)
            return super().write(line)


def test_a_fork_while_other_threads_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are so many slow threads that an unfair lock would starve the fork. It must wait for one line only."""
    # Other tests' programs may have configured logging in this process.
    for name, value in {"propagate": False, "disabled": False}.items():
        monkeypatch.setattr(logging.getLogger("pinyon.servers"), name, value)
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    logging.getLogger("pinyon.servers").setLevel(logging.WARNING)
    handler, over = logging.StreamHandler(SlowFile()), threading.Event()
    logging.getLogger("pinyon.servers").addHandler(handler)

    def fail() -> None:
        client = pinyon.Client("127.0.0.1:1")
        for _ in range(5):
            with contextlib.suppress(pinyon.Error):
                client.get("key")

    def keep_failing() -> None:
        while not over.is_set():
            fail()

    threads = [threading.Thread(target=keep_failing) for _ in range(12)]
    for thread in threads:
        thread.start()
    try:
        while not handler.stream.getvalue():
            time.sleep(0.001)
        for _ in range(5):
            in_child(fail)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        logging.getLogger("pinyon.servers").removeHandler(handler)
        logging.getLogger("pinyon.servers").setLevel(logging.NOTSET)


def test_a_childs_child_uses_the_client_too(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        check_values(client, "parent", 5)

        def used() -> bool:
            check_values(client, "child", 5)
            in_child(lambda: check_values(client, "grandchild", 50), lambda: check_values(client, "child", 50))
            check_values(client, "child", 5)
            return own_server.has_connections(2)

        def unused() -> bool:
            in_child(lambda: check_values(client, "grandchild", 50))
            return own_server.has_connections(1)

        assert in_child(used, lambda: check_values(client, "parent", 50))
        assert in_child(unused, lambda: check_values(client, "parent", 50))
        check_values(client, "parent", 5)


def test_a_child_may_close_the_client_without_closing_the_parents(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        client.set("key", "value")
        in_child(client.close)
        assert client.get("key") == "value"
        assert own_server.statistic("total_connections") < 10


def test_a_child_that_exits_normally_does_not_disturb_the_parent(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        client.set("key", "value")
        total = own_server.statistic("total_connections")
        child = multiprocessing.get_context("fork").Process(target=client.get, args=("key",))
        child.start()
        child.join(120)
        assert child.exitcode == 0
        assert client.get("key") == "value"
        assert own_server.statistic("total_connections") == total + 2


@pytest.mark.parametrize("leave", [True, False], ids=["leaves the block", "drops the batch"])
def test_a_batch_begun_before_the_fork_is_not_the_childs(own_server: Memcached, leave: bool) -> None:
    with pinyon.Client(own_server.address, timeout=60, connect_timeout=60) as client:
        client.set("count", 0)
        batch = client.quiet()
        batch.__enter__()
        batch.incr("count")

        def child() -> str:
            with pytest.raises(pinyon.UsageError, match="before the process forked") as raised:
                batch.incr("count")
            if leave:
                with contextlib.suppress(pinyon.UsageError):
                    batch.__exit__(None, None, None)
            assert client.get("count") == 0
            with client.quiet() as own:
                own.incr("count", 100)
            return str(raised.value)

        in_child(child)
        batch.incr("count")
        batch.__exit__(None, None, None)
        assert client.get("count") == 102


def test_a_child_is_not_refused_for_what_its_parents_threads_hold(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=20, connect_timeout=20, max_connections=1) as client:
        client.set("key", "value")
        batch = client.quiet()
        batch.__enter__()
        batch.set("held", 1)
        assert in_child(lambda: client.get("key")) == "value"
        batch.__exit__(None, None, None)
        assert client.get("held") == 1


def test_a_child_forked_while_the_client_waits_in_a_signal_handler(own_server: Memcached) -> None:
    children: list[Any] = []
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        client.set("key", "value")

        def handler(*_: object) -> None:
            own_server.resume()
            children.append(in_child(lambda: client.get("key")))

        previous = signal.signal(signal.SIGUSR1, handler)
        try:
            own_server.pause()
            sender = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
            sender.start()
            assert client.get("key") == "value"
            sender.join()
        finally:
            signal.signal(signal.SIGUSR1, previous)
    assert children == ["value"]


def read_with_own_client(work: tuple[str, int]) -> Any:
    address, number = work
    with pinyon.Client(address, timeout=20, connect_timeout=20) as client:
        check_values(client, f"worker{number}", 20)
        return client.get(f"key:{number}")


inherited_client: pinyon.Client | None = None


def read_with_inherited_client(number: int) -> Any:
    assert inherited_client is not None
    check_values(inherited_client, f"worker{number}", 20)
    return inherited_client.get(f"key:{number}")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_make_clients_of_their_own(client: pinyon.Client, server: Memcached, method: str) -> None:
    client.set_many({f"key:{number}": number for number in range(8)})
    with multiprocessing.get_context(method).Pool(2) as pool:
        work = [(server.address, number) for number in range(8)]
        assert pool.map_async(read_with_own_client, work).get(120) == list(range(8))


def test_forked_workers_use_the_client_they_inherit(client: pinyon.Client) -> None:
    global inherited_client
    client.set_many({f"key:{number}": number for number in range(16)})
    inherited_client = client
    try:
        with multiprocessing.get_context("fork").Pool(4) as pool:
            result = pool.map_async(read_with_inherited_client, range(16))
            check_values(client, "parent", 100)
            assert result.get(120) == list(range(16))
    finally:
        inherited_client = None


def test_a_child_of_a_long_wait_is_not_late(own_server: Memcached) -> None:
    """The parent's thread waits for a stalled server. The child's first use must begin afresh."""
    with pinyon.Client(own_server.address, timeout=3, connect_timeout=30) as client:
        client.set("key", "value")
        own_server.pause()
        waiting = threading.Thread(target=client.get, args=("key",))
        waiting.start()
        time.sleep(0.2)

        def child() -> Any:
            own_server.resume()
            return client.get("key")

        assert in_child(child) == "value"
        waiting.join()


def made_by(cache: pinyon.Client, make: Callable[[], Any]) -> None:
    cache.get_or_set("key", make, 60)


def won_by(cache: pinyon.Client, make: Callable[[], Any]) -> None:
    with cache.lease("key") as lease:
        lease.fulfil(make(), 60)


@pytest.mark.parametrize("ending", [SystemExit(), ValueError("the child fails")], ids=["exits", "fails"])
@pytest.mark.parametrize("way", [made_by, won_by])
def test_a_child_that_a_maker_forks_leaves_the_lease_to_its_parent(
    way: Callable[..., None], ending: BaseException, server: Memcached
) -> None:
    parent = os.getpid()
    states = []

    def make() -> str:
        child = os.fork()
        if child == 0:
            raise ending
        os.waitpid(child, 0)
        states.append(other.lease("key").state)
        return "parent's"

    with pinyon.Client(server.address) as cache, pinyon.Client(server.address) as other:
        try:
            way(cache, make)
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert states == [pinyon.Outcome.FILLING]
        assert cache.get("key") == "parent's"
