"""The shim for pymemcache, compared with pymemcache: the same interface, the same bytes, the same servers."""

from __future__ import annotations

import importlib
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import gevent.socket
import pymemcache
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import what_it_prints
from pymemcache import serde as real_serde
from pymemcache.client.murmur3 import murmur3_32 as real_murmur3
from pymemcache.client.rendezvous import RendezvousHash as RealRendezvous
from servers import Memcached

from pinyon.compat import pymemcache as shim
from pinyon.compat.pymemcache import serde
from pinyon.compat.pymemcache.client.murmur3 import murmur3_32
from pinyon.compat.pymemcache.client.rendezvous import RendezvousHash
from pinyon.compat.pymemcache.fallback import FallbackClient

VALUES = [
    b"",
    b"\x00\r\n\xff",
    "text",
    "größer 🌲",
    7,
    -(2**80),
    True,
    None,
    1.5,
    ("tuple", {3}),
    "x" * 100_000,
    [1] * 900,
]
SERDES = {
    "pickle": (lambda module: module.pickle_serde, VALUES),
    "old pickle": (lambda module: module.PickleSerde(pickle_version=0), VALUES),
    "compressed": (lambda module: module.compressed_serde, VALUES),
    "often compressed": (lambda module: module.CompressedSerde(min_compress_len=50), VALUES),
    "functions": (
        lambda module: module.LegacyWrappingSerde(
            module.python_memcache_serializer, module.python_memcache_deserializer
        ),
        VALUES,
    ),
    "none": (lambda module: None, [b"", b"\x00\xff", "text", 7, 1.5, None]),
}


@pytest.fixture(params=["Client", "PooledClient", "HashClient"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(module: Any, kind: str, server: Memcached, **settings: Any) -> Any:
    place = (server.host, server.port)
    return getattr(module, kind)([place] if kind == "HashClient" else place, **settings)


@pytest.mark.parametrize("named", SERDES)
def test_what_one_writes_the_other_reads(server: Memcached, kind: str, named: str) -> None:
    make, values = SERDES[named]
    ours = made(shim, kind, server, serde=make(serde), key_prefix=b"app:")
    theirs = made(pymemcache, kind, server, serde=make(real_serde), key_prefix=b"app:", no_delay=True)
    many = {f"key:{number}": value for number, value in enumerate(values)}
    for writer, reader in ((ours, theirs), (theirs, ours)):
        assert writer.set_many(many, noreply=False) == []
        assert writer.get_many(many) == reader.get_many(many)
        assert ours.gets_many(many) == theirs.gets_many(many)
        for key, value in many.items():
            assert writer.set(key, value, noreply=False) is True
            assert [(type(found), found) for found in (reader.get(key),)] == [(type(writer.get(key)), writer.get(key))]
            assert ours.gets(key) == theirs.gets(key)
    for client in (ours, theirs):
        client.close()


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_what_is_stored_is_the_same_to_the_byte(server: Memcached, value: Any) -> None:
    stored = []
    for module, its_serde in ((shim, serde), (pymemcache, real_serde)):
        client = made(module, "Client", server, serde=its_serde.compressed_serde)
        client.set("key", value, noreply=False)
        stored.append(server.ask(b"get key\r\n", b"END\r\n"))
        client.set("key", value, flags=0x1234, noreply=False)
        stored[-1] += server.ask(b"get key\r\n", b"END\r\n")
        client.close()
    assert stored[0] == stored[1]


CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda client: (client.add("new", 1), client.add("new", 1), client.add("new", 1, noreply=False)),
    "replace": lambda client: (client.replace("none", 1), client.replace("none", 1, noreply=False)),
    "append": lambda client: (client.append("none", "x"), client.append("none", "x", noreply=False)),
    "prepend": lambda client: (client.prepend("key", "x", noreply=False), client.get("key")),
    "cas": lambda client: [client.cas("key", 2, token) for token in (client.gets("key")[1], b"1", "2", 3)],
    "cas of nothing": lambda client: (client.cas("none", 1, b"1"), client.cas("none", 1, b"1", noreply=True)),
    "get": lambda client: (client.get("none"), client.get("none", 5), client.gets("none")),
    "dict": lambda client: (client.__setitem__("a", 1), client["a"], client.__delitem__("a"), client.get("a")),
    "delete": lambda client: (client.delete("none"), client.delete("none", noreply=False), client.delete("key", False)),
    "delete many": lambda client: (client.delete_many(["key", "none"], noreply=False), client.get("key")),
    "incr": lambda client: (client.incr("none", 1), client.incr("key", 5), client.incr("key", 5, noreply=True)),
    "decr": lambda client: (client.decr("none", 1), client.decr("key", 500), client.get("key")),
    "touch": lambda client: (client.touch("none"), client.touch("none", 5, noreply=False), client.touch("key", 5)),
    "ends": lambda client: (client.set("key", 1, expire=-1), client.get("key")),
    "ends long ago": lambda client: (client.set("key", 1, expire=60 * 60 * 24 * 31), client.get("key")),
    "ends at a time": lambda client: (client.set("key", 1, expire=int(time.time()) + 1000), client.get("key")),
    "empty": lambda client: (client.get_many([]), client.gets_many([]), client.set_many({}), client.delete_many([])),
    "version": lambda client: client.version(),
    "stats": lambda client: {name: type(value) for name, value in client.stats().items()},
    # All but what other tests change, and an age in seconds.
    "settings": lambda client: {
        k: v for k, v in client.stats("settings").items() if k not in {b"verbosity", b"oldest"}
    },
    "raw": lambda client: (client.raw_command("mg key v"), client.raw_command(b"get key", b"END\r\n")),
    "flush": lambda client: (client.flush_all(), client.get("key"), client.flush_all(noreply=False)),
    "text that is not ASCII": lambda client: client.set("key", "ü"),
    "key that is not ASCII": lambda client: client.get("ü"),
    "key with a space": lambda client: client.get_many(["key", "two words"]),
    "long key": lambda client: client.delete("k" * 251),
    "expiry of text": lambda client: client.set("key", 1, expire="5"),
    "token of text": lambda client: client.cas("key", 1, "five"),
    "not a number": lambda client: (client.set("word", "word"), client.incr("word", 1)),
    "less than nothing": lambda client: client.incr("key", -1),
    "number of text": lambda client: client.incr("key", "1"),
    "enormous number": lambda client: client.incr("key", 2**200),
    "no command": lambda client: client.raw_command(""),
    "unknown command": lambda client: client.raw_command("nonsense"),
    "shutdown": lambda client: client.shutdown(),
    "no such key": lambda client: client["none"],
    "too large": lambda client: client.set("key", b"x" * 3_000_000, noreply=False),
    "missing argument": lambda client: client.incr("key"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_method_returns_and_raises_the_same(server: Memcached, call: str) -> None:
    came_to: list[Any] = []
    for module in (pymemcache, shim):
        server.flush()
        client = made(module, "Client", server, no_delay=True)
        client.set("key", 100)
        try:
            came_to.append(CALLS[call](client))
        except Exception as error:
            came_to.append([kind.__name__ for kind in type(error).__mro__])
        client.close()
    theirs, ours = came_to
    if isinstance(theirs, list) and "Exception" in theirs:
        assert theirs[0] in ours
    else:
        assert ours == theirs


def test_the_interface_is_the_same() -> None:
    """For all modules except sockets and their pools: names, methods, parameters, defaults."""
    missing, different = [], []
    for name in ("", ".client", ".client.hash", ".client.retrying", ".client.rendezvous", ".serde", ".exceptions"):
        theirs, ours = (importlib.import_module(base + name) for base in ("pymemcache", shim.__name__))
        for thing, real in vars(theirs).items():
            if not getattr(real, "__module__", "").startswith("pymemcache") or thing.startswith("_"):
                continue
            methods = inspect.getmembers(real, inspect.isfunction) if inspect.isclass(real) else []
            for path in [thing, *(f"{thing}.{method}" for method, _ in methods)]:
                if "._" in path and not path.endswith("__"):
                    continue
                found, real_one = _at(ours, path), _at(theirs, path)
                if found is None:
                    missing.append(path)
                elif inspect.isfunction(real_one) and not _takes_all(found, real_one):
                    different.append(path)
    assert set(missing) == set()
    assert set(different) <= {"Client.check_key", "PooledClient.raw_command"}  # of more kinds than pymemcache's


def _at(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _takes_all(ours: Any, theirs: Any) -> bool:
    wanted, given = (list(inspect.signature(function).parameters.values()) for function in (theirs, ours))
    pairs = zip(wanted, given)
    same = [p.name == q.name and _is_like(p.default, q.default) for p, q in pairs]
    return len(given) >= len(wanted) and all(same)


def _is_like(one: Any, other: Any) -> bool:
    return bool(one == other) or type(one).__name__ == type(other).__name__ not in ("int", "bytes", "str", "bool")


@given(text=st.text(), seed=st.integers(0, 2**32 - 1), nodes=st.lists(st.text(), unique=True))
def test_keys_are_placed_as_pymemcache_places_them(text: str, seed: int, nodes: list[str]) -> None:
    assert murmur3_32(text, seed) == real_murmur3(text, seed)
    for key in (text, text.encode()):
        assert RendezvousHash(nodes, seed).get_node(key) == RealRendezvous(nodes, seed).get_node(key)


def test_keys_are_on_the_servers_where_pymemcache_has_them(four: list[Memcached]) -> None:
    places = [(server.host, server.port) for server in four]
    settings: dict[str, Any] = {"allow_unicode_keys": True, "key_prefix": b"app:"}
    ours, theirs = (module.HashClient(places, **settings) for module in (shim, pymemcache))
    texts = {f"ключ:{number}": b"%d" % number for number in range(200)}
    values: dict[Any, bytes] = {**texts, **{f"bytes:{number}".encode(): b"%d" % number for number in range(200)}}
    for writer, reader in ((ours, theirs), (theirs, ours)):
        assert writer.set_many(values, noreply=False) == []
        assert reader.get_many(values) == values
        assert reader.gets_many(values).keys() == values.keys()
        assert reader.delete_many(values, noreply=False) is True
        assert writer.get_many(values) == {}
    assert all(server.statistic("cmd_set") > 100 for server in four)
    theirs.close()


def test_threads_share_a_client(server: Memcached, kind: str) -> None:
    client = made(shim, kind, server, serde=serde.pickle_serde)
    wrong: list[Any] = []

    def work(own: int) -> None:
        for number in range(100):
            client.set(f"{own}:{number}", [own, number])
            if client.get(f"{own}:{number}") != [own, number]:
                wrong.append((own, number))
            if number == 50:
                client.incr("closers", 1)
        if client.get_many([f"{own}:{number}" for number in range(100)]) != {
            f"{own}:{number}": [own, number] for number in range(100)
        }:
            wrong.append(own)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_greenlets_run_while_one_waits(server: Memcached, own_server: Memcached) -> None:
    settings: dict[str, Any] = {"socket_module": gevent.socket, "serde": serde.pickle_serde}
    slow, quick = (shim.Client((each.host, each.port), timeout=20, **settings) for each in (own_server, server))
    slow.set("key", 1)
    own_server.pause()
    waiting = gevent.spawn(slow.get, "key")
    working = [gevent.spawn(quick.set, f"key:{number}", number) for number in range(10)]
    gevent.joinall(working, timeout=10)
    assert all(greenlet.value for greenlet in working)
    assert not waiting.ready()
    own_server.resume()
    assert waiting.get(timeout=10) == 1


PATCHED = """
import gevent.monkey; gevent.monkey.patch_all()
import gevent, sys
from pinyon.compat.pymemcache import PooledClient
client = PooledClient(sys.argv[1])
others = []
gevent.spawn(lambda: others.append("ran"))
client.set("key", "value")
print(client.get("key"), others, client.raw_command("get key", "END\\r\\n"), client.quit(), client.get("key"))
"""


def test_where_gevent_has_patched_the_process_greenlets_run(server: Memcached) -> None:
    printed = what_it_prints(PATCHED, server.address)
    assert printed == "b'value' ['ran'] b'VALUE key 0 5\\r\\nvalue\\r\\n' None b'value'"


@pytest.fixture
def pair(server: Memcached, own_server: Memcached) -> Iterator[FallbackClient]:
    client = FallbackClient([made(shim, "Client", each) for each in (server, own_server)])
    yield client
    client.close()


def test_a_fallback_reads_what_the_old_cache_has(pair: FallbackClient, own_server: Memcached) -> None:
    made(shim, "Client", own_server).set_many({"old": "value", "both": "old"})
    pair.set("both", "new")
    assert (pair.get("old"), pair.get("both"), pair.get("none")) == (b"value", b"new", None)
    assert pair.get_many(["old"]) == {"old": b"value"}
    assert pair.gets("old") == (None, None)
