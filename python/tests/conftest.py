"""Fixtures for all tests: servers, clients, and ways to set them up."""

from __future__ import annotations

import contextlib
import inspect
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from faulty import FaultyServer, OlderServer, Play, Step
from gate import Gate
from models import Model
from servers import PASSWORD, GuardedMemcached, Memcached, Pool, Redis, Twemproxy
from waiting import PATIENT

import pinyon

pytest_plugins = ["shuffled"]

T = TypeVar("T")

#: Files whose few tests take longest.
LONG = {
    "test_cli_check.py",
    "test_cli_locks.py",
    "test_cli_servers.py",
    "test_django_suite.py",
    "test_locks_failover.py",
    "test_locks_held.py",
    "test_locks_processes.py",
    "test_locks_quorum.py",
    "test_portable.py",
    "test_pymemcache_suite.py",
    "test_typing.py",
}


def pytest_configure(config: pytest.Config) -> None:
    """Enables Ctrl-C, which is tested: background processes and their children start with it ignored. No example of
    hypothesis has a deadline. Processes take files in the order that is given here."""
    config.option.loadscopereorder = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile("patient", deadline=None)
    hypothesis.settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take longest, so that no process is left to work on one of them alone."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name not in LONG, -tests[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine as a scenario, in the concurrency model it is given."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    arguments["model"].run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def memcached() -> Iterator[Memcached]:
    with Memcached() as server:
        yield server


@pytest.fixture
def server(memcached: Memcached) -> Memcached:
    memcached.flush()
    return memcached


@pytest.fixture
def client(server: Memcached) -> Iterator[pinyon.Client]:
    with pinyon.Client(server.address, timeout=30, connect_timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def four_memcacheds() -> Iterator[list[Memcached]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Memcached()) for _ in range(4)]


@pytest.fixture
def four(four_memcacheds: list[Memcached]) -> list[Memcached]:
    for server in four_memcacheds:
        server.flush()
    return four_memcacheds


@pytest.fixture
def own_server() -> Iterator[Memcached]:
    """A server for one test, which may stop, pause and restart it."""
    with Memcached() as server:
        yield server


@pytest.fixture(scope="session")
def roomy() -> Iterator[Memcached]:
    """A server that accepts values of many megabytes, and loses none of them.

    It does not reassign pages either: that drops a value that is in use for too long.
    """
    with Memcached("-I", "32m", "-m", "1024", "-o", "slab_automove=0") as server:
        yield server


@pytest.fixture
def gate(roomy: Memcached) -> Iterator[Gate]:
    roomy.flush()
    with Gate(roomy) as gate:
        yield gate


@pytest.fixture(scope="session")
def certificates() -> Iterator[Path]:
    """A directory that servers of another user may read, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture(scope="session")
def guarded_memcached(certificates: Path) -> Iterator[GuardedMemcached]:
    with GuardedMemcached(certificates / "users") as server:
        yield server


@pytest.fixture(scope="session")
def unix_memcached() -> Iterator[Memcached]:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        with Memcached(path=f"{directory}/memcached") as server:
            yield server


@pytest.fixture(scope="session")
def ipv6_memcached() -> Iterator[Memcached]:
    with Memcached(host="::1") as server:
        yield server


@pytest.fixture(scope="session")
def classic_server(memcached: Memcached) -> Iterator[OlderServer]:
    """A server that makes clients use only classic text."""
    with OlderServer(memcached, "1.4.15") as proxy:
        yield proxy


@pytest.fixture(scope="session")
def older_meta_server(memcached: Memcached) -> Iterator[OlderServer]:
    """A server whose misses do not echo the opaque."""
    with OlderServer(memcached, "1.6.12") as proxy:
        yield proxy


@pytest.fixture(scope="session")
def twemproxy_of_all(memcached: Memcached) -> Iterator[Twemproxy]:
    if not shutil.which("nutcracker"):
        pytest.skip("nutcracker is not installed")
    with Memcached() as other, Twemproxy(Pool(memcached, other)) as proxy:
        yield proxy


@pytest.fixture
def twemproxy(twemproxy_of_all: Twemproxy) -> Twemproxy:
    for server in twemproxy_of_all.pools[0].servers:
        server.flush()
    return twemproxy_of_all


@dataclass
class Setting:
    """A client, and the special conditions of its use."""

    client: pinyon.Client
    servers: list[str]
    version: str
    namespace: str = ""
    proxied: bool = False

    @property
    def classic(self) -> bool:
        return self.proxied or self.version == "1.4.15"

    @property
    def why_unsupported(self) -> str:
        """A pattern of what is said of a command that needs meta commands, where there are none."""
        return "needs meta commands" if self.proxied else r"needs memcached 1\.6\.10.*reports 1\.4\.15"


SETTINGS = ("meta", "older_meta", "classic", "unix", "ipv6", "namespace", "encode_keys", "four", "twemproxy")

#: What cannot pass behind twemproxy, and the command that the proxy does not know.
NOT_BEHIND_TWEMPROXY = {
    "test_touch_and_gat_set_the_ttl": "gat",
    "test_gat_many_sets_the_ttl_of_what_it_reads": "gat",
    "test_flush_all_makes_all_servers_forget": "flush_all",
    "test_version_and_stats_name_every_server": "stats",
}


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, server: Memcached) -> Iterator[Setting]:
    addresses, version = [server.address], real_version(server)
    options: dict[str, Any] = {}
    if request.param == "older_meta":
        addresses, version = [request.getfixturevalue("older_meta_server").address], "1.6.12"
    elif request.param == "classic":
        addresses, version = [request.getfixturevalue("classic_server").address], "1.4.15"
    elif request.param == "twemproxy":
        addresses = [request.getfixturevalue("twemproxy").address]
        if unknown := NOT_BEHIND_TWEMPROXY.get(request.function.__name__):
            refused = pytest.mark.xfail(raises=pinyon.Unsupported, reason=f"twemproxy: {unknown}", strict=True)
            request.applymarker(refused)
    elif request.param == "four":
        addresses = [each.address for each in request.getfixturevalue("four")]
    elif request.param in ("unix", "ipv6"):
        other: Memcached = request.getfixturevalue(f"{request.param}_memcached")
        other.flush()
        addresses = [other.address]
    elif request.param == "namespace":
        options = {"namespace": "app:"}
    elif request.param == "encode_keys":
        options = {"encode_keys": True}
    with pinyon.Client(addresses, timeout=30, connect_timeout=30, **options) as client:
        yield Setting(client, addresses, version, options.get("namespace", ""), request.param == "twemproxy")


def real_version(server: Memcached) -> str:
    return server.ask(b"version\r\n", b"\r\n").decode().removeprefix("VERSION ").strip()


@pytest.fixture
def faulty() -> Iterator[Callable[..., FaultyServer]]:
    """Makes faulty servers that end with the test."""
    with contextlib.ExitStack() as stack:

        def make(*steps: Step | Play, **options: Any) -> FaultyServer:
            return stack.enter_context(FaultyServer(*steps, **options))

        yield make


@pytest.fixture
def impatient() -> Iterator[Callable[..., pinyon.Client]]:
    """Makes clients with short timeouts."""
    with contextlib.ExitStack() as stack:

        def make(*servers: Any, **options: Any) -> pinyon.Client:
            addresses = [getattr(server, "address", server) for server in servers]
            options = {"timeout": 0.6, "connect_timeout": 0.6, **options}
            return stack.enter_context(pinyon.Client(addresses, **options))

        yield make


@pytest.fixture
def connect(model: Model) -> Iterator[Callable[..., Any]]:
    """Makes clients of the test's concurrency model."""
    with contextlib.ExitStack() as stack:

        def make(*servers: Any, **settings: Any) -> Any:
            addresses = [getattr(server, "address", server) for server in servers]
            client = model.client(addresses, **{"timeout": 30, "connect_timeout": 30, **settings})
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture(scope="session")
def redis_of_all() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def redis(redis_of_all: Redis) -> Redis:
    """An empty Redis."""
    redis_of_all.ask("FLUSHALL")
    return redis_of_all


@pytest.fixture(scope="session")
def guarded_redis() -> Iterator[Redis]:
    """A Redis with a login: for the user "app", or with the same password alone."""
    with Redis() as server:
        server.ask("ACL", "SETUSER", "app", "on", f">{PASSWORD}", "+@all", "~*", "&*")
        server.ask("CONFIG", "SET", "requirepass", PASSWORD)
        yield server


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis for one test, which may stop, pause and restart it."""
    with Redis() as server:
        yield server


@pytest.fixture
def redis_with() -> Iterator[Callable[..., Redis]]:
    """Starts Redis with arguments. It ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **settings: Any) -> Redis:
            return stack.enter_context(Redis(*arguments, **settings))

        yield start


@pytest.fixture
def locks_on(model: Model) -> Iterator[Callable[..., Any]]:
    """Makes locks of the test's concurrency model."""
    with contextlib.ExitStack() as stack:

        def make(place: Redis | str, **settings: Any) -> Any:
            locks = model.locks(getattr(place, "url", place), **{**PATIENT, **settings})
            stack.callback(locks.close)
            return locks

        yield make


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[2]


def eventually(attempt: Callable[[], T], within: float = 60.0) -> T:
    """Repeats ``attempt`` until it succeeds, for example when a server is no longer marked down. Returns its result."""
    give_up = time.monotonic() + within
    while True:
        try:
            return attempt()
        except pinyon.Error:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)
