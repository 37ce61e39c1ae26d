"""dogpile.cache's regions on memcached, with its own tests of backends and ours."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Setting, eventually
from dogpile.cache import make_region
from dogpile.cache.api import NO_VALUE
from dogpile.testing import fixtures
from servers import Memcached, Redis

import pinyon
from pinyon.frameworks.dogpile import LOCK_TIMEOUT, PinyonBackend

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

KEEPERS = ["memcached", "redis"]


@pytest.fixture
def keeping(server: Memcached, redis: Redis) -> Callable[..., dict[str, Any]]:
    """The arguments of a backend with locks on either server."""

    def arguments(keeper: str | None, **others: Any) -> dict[str, Any]:
        lock = {"memcached": {"distributed_lock": True}, "redis": {"lock_url": redis.url}}.get(keeper or "", {})
        return {"servers": server.address, "timeout": 10, "connect_timeout": 10, **lock, **others}

    return arguments


class Suite:
    """Configures dogpile.cache's own tests. Those that sleep for seconds are left out, since they do not depend on the
    backend.
    """

    backend = "pinyon"
    keeper: str | None = None
    test_threaded_dogpile = test_threaded_get_multi = test_region_expire = None

    @pytest.fixture(autouse=True)
    def _arguments(self, request: pytest.FixtureRequest, keeping: Callable[..., dict[str, Any]]) -> None:
        request.instance.config_args = {"arguments": keeping(self.keeper)}

    def test_argument_dictionary_unmodified(self) -> None:
        """Unlike others, this backend refuses unknown arguments."""
        arguments = {**self.config_args["arguments"], "url": "127.0.0.1:1", "memcached_expire_time": 5}
        before = dict(arguments)
        make_region().configure("pinyon", arguments=arguments)
        assert arguments == before


class TestBackend(Suite, fixtures._GenericBackendTestSuite):
    pass


class TestBackendWithLocksOnMemcached(Suite, fixtures._GenericBackendTestSuite):
    keeper = "memcached"


class TestBackendWithLocksOnRedis(Suite, fixtures._GenericBackendTestSuite):
    keeper = "redis"


class TestSerializer(Suite, fixtures._GenericSerializerTestSuite, fixtures._GenericBackendTestSuite):
    pass


class TestLocksOnMemcached(Suite, fixtures._GenericMutexTestSuite):
    keeper = "memcached"


class TestLocksOnRedis(Suite, fixtures._GenericMutexTestSuite):
    keeper = "redis"


def test_a_region_on_any_pool_of_servers(setting: Setting) -> None:
    if setting.classic:
        pytest.skip("encoded keys are for meta commands")
    arguments = {
        "servers": setting.servers,
        "timeout": 10,
        "connect_timeout": 10,
        "namespace": setting.namespace or None,
    }
    region = make_region().configure("pinyon", arguments=arguments)
    keys = ["plain", "module:function|first second", "ключ", "long" * 100]
    region.set_multi({key: key.upper() for key in keys})
    assert region.get_multi([*keys, "missing"]) == [*(key.upper() for key in keys), NO_VALUE]
    region.delete_multi(keys[1:])
    assert region.get_multi(keys) == ["PLAIN", NO_VALUE, NO_VALUE, NO_VALUE]


def test_a_region_is_configured_by_a_file(server: Memcached) -> None:
    region = make_region()
    written = {"backend": "pinyon", "arguments.url": server.address, "arguments.memcached_expire_time": "600"}
    region.configure_from_config({f"cache.{name}": value for name, value in written.items()}, "cache.")
    region.set("key", {"any": object})
    assert region.get("key") == {"any": object}
    with pinyon.Client(server.address, timeout=20, connect_timeout=20) as client:
        item = client.meta("key")
        assert item is not None
        assert item.ttl is not None
        assert 590 < item.ttl <= 600


@pytest.mark.parametrize("name", ["expiration", "serializer"])
def test_arguments_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        PinyonBackend({name: "json"})


@pytest.mark.parametrize("many", [False, True])
def test_what_another_client_keeps_under_a_key_is_no_value(server: Memcached, many: bool) -> None:
    region = make_region().configure("pinyon", arguments={"servers": server.address})
    with pinyon.Client(server.address, serializer="pickle", timeout=20, connect_timeout=20) as client:
        client.set("key", ("pickled", "by another backend"))
    assert (region.get_multi(["key"])[0] if many else region.get("key")) is NO_VALUE
    assert region.get_or_create("key", lambda: "made") == "made"


def test_values_need_not_be_pickled(server: Memcached) -> None:
    region = make_region(serializer=lambda value: json.dumps(value).encode(), deserializer=json.loads)
    region.configure("pinyon", arguments={"servers": server.address})
    region.set("key", [1, "two"])
    assert region.get("key") == [1, "two"]
    with pinyon.Client(server.address, serializer="raw", timeout=20, connect_timeout=20) as client:
        assert client.get("key").endswith(b'|[1, "two"]')


@pytest.mark.parametrize("keeper", [None, *KEEPERS])
def test_without_its_cache_a_program_goes_on(keeping: Callable[..., dict[str, Any]], keeper: str | None) -> None:
    arguments = keeping(keeper, servers="127.0.0.1:1", on_failure="miss")
    if keeper == "redis":
        # A caller waits for twice this time, which begins anew with each call.
        arguments |= {"lock_url": "redis://127.0.0.1:1", "lock_timeout": 2}
    region = make_region().configure("pinyon", arguments=arguments)
    assert region.get_or_create("key", lambda: "made") == "made"
    assert region.get_or_create_multi(["a", "b"], lambda *keys: list(keys)) == ["a", "b"]
    assert region.key_is_locked("key") is False
    region.delete("key")
    with pytest.raises(pinyon.Error):
        make_region().configure("pinyon", arguments={**arguments, "on_failure": "raise"}).get("key")


@pytest.mark.parametrize("keeper", KEEPERS)
def test_processes_wait_for_each_others_values(
    keeping: Callable[..., dict[str, Any]], server: Memcached, keeper: str
) -> None:
    region = make_region().configure("pinyon", arguments=keeping(keeper))

    def make() -> str:
        with pinyon.Client(server.address, timeout=10, connect_timeout=10) as client:
            client.incr("made", initial=1)
        time.sleep(0.1)
        return "value"

    def look() -> None:
        assert region.get_or_create("key", make) == "value"

    children = [multiprocessing.get_context("fork").Process(target=look) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0] * 4
    with pinyon.Client(server.address, timeout=20, connect_timeout=20) as client:
        assert client.incr("made", 0) == 1


@pytest.mark.parametrize("keeper", KEEPERS)
def test_another_thread_may_make_the_value_and_give_the_lock_back(
    keeping: Callable[..., dict[str, Any]], keeper: str
) -> None:
    threads: list[threading.Thread] = []

    def in_a_thread(cache: Any, key: str, creator: Callable[[], Any], mutex: Any) -> None:
        def make() -> None:
            cache.set(key, creator())
            mutex.release()

        assert cache.key_is_locked(key)
        threads.append(threading.Thread(target=make))
        threads[0].start()

    region = make_region(async_creation_runner=in_a_thread).configure("pinyon", arguments=keeping(keeper))
    region.set("key", "old")
    assert region.get_or_create("key", lambda: "new", expiration_time=0) == "old"
    threads[0].join(60)
    assert region.get("key") == "new"
    assert not region.key_is_locked("key")


@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_lock_that_has_ended_is_not_given_back(
    keeping: Callable[..., dict[str, Any]], server: Memcached, redis: Redis, keeper: str
) -> None:
    one, other = (PinyonBackend(keeping(keeper)) for _ in range(2))
    slow, next_one = one.get_mutex("key"), other.get_mutex("key")
    assert slow is not None
    assert next_one is not None
    assert slow.acquire()
    assert not next_one.acquire(False)
    server.flush() if keeper == "memcached" else one._locks.force_release("key")
    assert next_one.acquire()
    slow.release()
    assert next_one.locked()
    slow.release()
    assert next_one.locked()
    next_one.release()
    assert not next_one.locked()


@pytest.mark.parametrize("keeper", KEEPERS)
def test_nobody_waits_for_a_lock_for_ever(keeping: Callable[..., dict[str, Any]], keeper: str) -> None:
    arguments = keeping(keeper, lock_timeout=2)
    held = PinyonBackend(keeping(keeper)).get_mutex("key")
    assert held is not None
    assert held.acquire()
    wanted = PinyonBackend(arguments).get_mutex("key")
    assert wanted is not None
    with pytest.raises(pinyon.LockTimeout):
        wanted.acquire()
    held.release()
    assert eventually(wanted.acquire)


def test_a_lock_on_memcached_ends_with_its_timeout(
    keeping: Callable[..., dict[str, Any]], client: pinyon.Client
) -> None:
    for timeout, ttl in ((None, LOCK_TIMEOUT), (700, 700)):
        backend = PinyonBackend(keeping("memcached", **({"lock_timeout": timeout} if timeout else {})))
        mutex = backend.get_mutex(f"key{timeout}")
        assert mutex is not None
        assert mutex.acquire()
        item = client.meta(f"_lockkey{timeout}")
        assert item is not None
        assert item.ttl is not None
        assert ttl - 20 < item.ttl <= ttl
        assert backend.has_lock_timeout()
    assert not PinyonBackend(keeping("redis")).has_lock_timeout()
    assert not PinyonBackend(keeping(None)).has_lock_timeout()


class _Gone:
    """A class that a deployment removes."""


def test_a_value_whose_class_is_gone_is_made_anew(
    keeping: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    region = make_region().configure("pinyon", arguments=keeping(None))
    region.set_multi({"one": _Gone(), "two": _Gone(), "good": 1})
    monkeypatch.delattr(f"{__name__}._Gone")
    assert region.get("one") is NO_VALUE
    assert region.get_multi(["one", "good"]) == [NO_VALUE, 1]
    for _ in range(2):
        assert region.get_or_create("one", lambda: "made", should_cache_fn=None) == "made"
    assert region.get("one") == "made"
    assert region.get_or_create_multi(["two", "good"], lambda *keys: [2] * len(keys)) == [2, 1]
    said = [line for line in caplog.messages if "cannot be read" in line and "'_Gone'" in line]
    assert len(said) == 1, "one line for the class"
