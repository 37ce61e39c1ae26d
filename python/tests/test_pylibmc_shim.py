"""Pinyon's replacement for pylibmc, compared with pylibmc on the same servers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from pylibmc_both import filled, outcome
from servers import Memcached

import pinyon
from pinyon.compat import pylibmc

TEXT = {"behaviors": {"verify_keys": True, "cas": True}}
BINARY = {"binary": True, "behaviors": {"cas": True}}


#: Calls for both, on the items that ``filled`` stores.
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "get": lambda mc: [mc.get("text"), mc.get(b"number"), mc.get("none"), mc.get("none", 7)],
    "get of None": lambda mc: (mc.set("is-none", None), mc.get("is-none", 7)),
    "get, no key": lambda mc: [mc.get(""), mc.get("", 7)],
    "get, long key": lambda mc: mc.get("k" * 251),
    "get, longest key": lambda mc: (mc.set("k" * 250, 1), mc.get("k" * 250)),
    "get, key of another type": lambda mc: mc.get(1),
    "get, default by name": lambda mc: mc.get("none", default=1),
    "set": lambda mc: [mc.set("new", [1]), mc.get("new")],
    "set, by name": lambda mc: [mc.set(key="new", val=1, time=100, min_compress_len=0, compress_level=-1)],
    "set, no key": lambda mc: mc.set("", 1),
    "set, long key": lambda mc: mc.set("k" * 251, 1),
    "set, lone surrogate": lambda mc: mc.set("\ud800", 1),
    "set, time as float": lambda mc: mc.set("new", 1, 1.5),
    "set, no time": lambda mc: mc.set("new", 1, None),
    "set, thirty-one days": lambda mc: [mc.set("new", 1, 31 * 86400), mc.get("new")],
    "set, Unix time": lambda mc: [mc.set("new", 1, int(time.time()) + 1000), mc.get("new")],
    "set, past": lambda mc: [mc.set("new", 1, int(time.time()) - 10), mc.get("new")],
    "set, negative time": lambda mc: [mc.set("new", 1, -1), mc.get("new")],
    "set, compression": lambda mc: [mc.set("new", "x" * 999, 0, 9, 9), mc.get("new")],
    "set, compression out of range": lambda mc: mc.set("new", 1, 0, 1, 10),
    "set, too large": lambda mc: mc.set("new", b"x" * 2_000_000),
    "set, large integer": lambda mc: [mc.set("new", 2**70), mc.get("new")],
    "set, bytearray": lambda mc: [mc.set("new", bytearray(b"x")), mc.get("new")],
    "add": lambda mc: [mc.add("text", 1), mc.add("new", 1), mc.get("new")],
    "replace": lambda mc: [mc.replace("text", 1), mc.replace("none", 1), mc.get("text")],
    "append": lambda mc: [mc.append("bytes", b"!"), mc.append("none", b"!"), mc.get("bytes")],
    "prepend": lambda mc: [mc.prepend("bytes", b"!"), mc.prepend("none", b"!"), mc.get("bytes")],
    "gets of nothing": lambda mc: [mc.gets("none"), mc.gets("")],
    "cas": lambda mc: [mc.cas("number", 6, mc.gets("number")[1]), mc.get("number")],
    "cas, changed": lambda mc: (token := mc.gets("number")[1], mc.set("number", 7), mc.cas("number", 6, token))[1:],
    "cas of nothing": lambda mc: mc.cas("none", 1, 1),
    "cas, no key": lambda mc: mc.cas("", 1, 1),
    "cas, with time": lambda mc: mc.cas("number", 1, mc.gets("number")[1], time=100),
    "get_multi": lambda mc: mc.get_multi(["text", b"number", "none", ""]),
    "get_multi, prefix": lambda mc: mc.get_multi(["xt", b"xt"], key_prefix="te"),
    "get_multi, bytes prefix": lambda mc: mc.get_multi([b"xt", "none"], b"te"),
    "get_multi of a set": lambda mc: mc.get_multi({"text"}),
    "get_multi of nothing": lambda mc: mc.get_multi([]),
    "get_multi of an iterator": lambda mc: mc.get_multi(iter(["text"])),
    "get_multi, long key": lambda mc: mc.get_multi(["k" * 251]),
    "get_multi, key of another type": lambda mc: mc.get_multi([1]),
    "set_multi": lambda mc: [mc.set_multi({"one": 1, b"two": "2"}, time=100), mc.get_multi(["one", "two"])],
    "set_multi, prefix": lambda mc: [mc.set_multi({"one": 1}, key_prefix="p:"), mc.get("p:one")],
    "set_multi, no key": lambda mc: [mc.set_multi({"": 1, "two": 2}), mc.get("two")],
    "set_multi, no mapping": lambda mc: mc.set_multi([("one", 1)]),
    "set_multi, long key": lambda mc: mc.set_multi({"k" * 240: 1}, key_prefix="p" * 20),
    "add_multi": lambda mc: [mc.add_multi({"text": 1, "new": 2}, 100), mc.get_multi(["text", "new"])],
    "add_multi, prefix": lambda mc: [mc.add_multi({"xt": 1, "new": 2}, key_prefix="te"), mc.get("tenew")],
    "delete": lambda mc: [mc.delete("text"), mc.delete("text"), mc.delete("")],
    "delete, key of another type": lambda mc: mc.delete(1),
    "delete_multi": lambda mc: [mc.delete_multi(["text", "none"]), mc.delete_multi(["number"]), mc.delete_multi([])],
    "delete_multi, twice": lambda mc: mc.delete_multi(["text", "text"]),
    "delete_multi, prefix": lambda mc: [mc.delete_multi(iter(["xt"]), key_prefix="te"), mc.get("text")],
    "delete_multi of a mapping": lambda mc: mc.delete_multi({"text": 1}),
    "touch": lambda mc: [mc.touch("text", 100), mc.touch("none", 100)],
    "touch, by name": lambda mc: mc.touch(key="text", seconds=1),
    "incr": lambda mc: [mc.incr("number"), mc.incr(b"number", 4), mc.get("number")],
    "incr of nothing": lambda mc: mc.incr("none"),
    "incr, negative": lambda mc: mc.incr("number", -1),
    "incr, no key": lambda mc: mc.incr(""),
    "decr": lambda mc: [mc.decr("number"), mc.decr("number", 100), mc.get("number")],
    "decr of nothing": lambda mc: mc.decr("none"),
    "incr_multi": lambda mc: [mc.incr_multi(["number"], delta=3), mc.get("number")],
    "incr_multi, prefix": lambda mc: [mc.incr_multi(("ber",), "num", 3), mc.get("number")],
    "incr_multi of nothing": lambda mc: mc.incr_multi(["number", "none"]),
    "flush_all": lambda mc: [mc.flush_all(), mc.get("text")],
    "flush_all, later": lambda mc: [mc.flush_all(time=1000), mc.get("text")],
    "flush_all, time as float": lambda mc: mc.flush_all(1.0),
    "hash of one server": lambda mc: mc.hash("text"),
    "statistics": lambda mc: [(name, stats["version"]) for name, stats in mc.get_stats()],
    "mapping": lambda mc: [mc["text"], "text" in mc, "none" in mc, mc.__delitem__("text"), "text" in mc],
    "mapping, nothing there": lambda mc: mc["none"],
    "mapping, nothing to delete": lambda mc: mc.__delitem__("none"),
    "mapping, no key": lambda mc: mc.__setitem__("", 1),
    "serialize": lambda mc: [mc.serialize(value) for value in (b"b", "t", True, 3, 1.5, None, [1])],
    "deserialize": lambda mc: [mc.deserialize(b"17", flags) for flags in (0, 2, 4, 16, 256)],
    "deserialize, unknown flags": lambda mc: mc.deserialize(b"17", 6),
    "clone": lambda mc: [mc.clone().get("text"), mc.clone().behaviors == mc.behaviors, mc.clone().addresses],
    "as text": lambda mc: [repr(mc), str(mc)],
    "disconnected": lambda mc: [mc.disconnect_all(), mc.get("text")],
    "the British": lambda mc: mc.behaviours,
}

#: Calls with keys that classic text cannot send but the binary protocol can.
BAD_KEYS: dict[str, Callable[[Any], Any]] = {
    "get": lambda mc: mc.get("a b"),
    "get_multi": lambda mc: mc.get_multi(["a b", "text"]),
    "set": lambda mc: [mc.set("a b", 1), mc.set("a\x7f", 1), mc.add("a\x00", 1)],
    "set_multi": lambda mc: [mc.set_multi({"a b": 1, "new": 2}), mc.get("new")],
    "add_multi": lambda mc: [mc.add_multi({"a b": 1, "new": 2}), mc.get("new")],
    "delete": lambda mc: [mc.delete("a b"), mc.delete_multi(["a b", "text"]), mc.get("text")],
    "incr": lambda mc: mc.incr("a b"),
}


#: Calls for which libmemcached's binary protocol differs from its text protocol, or hangs. Pinyon matches the text.
OTHERWISE_IN_BINARY = {"replace", "set, negative time", "touch"}


@pytest.mark.parametrize("settings", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_both_give_the_same_answer(server: Memcached, question: str, settings: Any) -> None:
    if settings is BINARY and question in OTHERWISE_IN_BINARY:
        pytest.skip("libmemcached's binary protocol does otherwise than its text")
    theirs, _ = filled(server, **settings)
    expected = outcome(QUESTIONS[question], theirs)
    _, ours = filled(server, **settings)
    assert outcome(QUESTIONS[question], ours) == expected


@pytest.mark.parametrize("settings", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("question", BAD_KEYS)
def test_both_say_the_same_to_keys_with_spaces(server: Memcached, question: str, settings: Any) -> None:
    theirs, _ = filled(server, **settings)
    expected = outcome(BAD_KEYS[question], theirs)
    _, ours = filled(server, **settings)
    assert outcome(BAD_KEYS[question], ours) == expected


def test_without_verify_keys_a_bad_key_is_refused_as_by_the_server(server: Memcached) -> None:
    _, ours = filled(server)
    assert ours.get("a b", 7) == 7
    assert ours.get_multi(["a b", "text"]) == {"text": "text"}
    for ask in (
        lambda: ours.set("a\r\nb", 1),
        lambda: ours.set_multi({"a b": 1, "new": 2}),
        lambda: ours.delete("a b"),
        lambda: ours.delete_multi(["text", "a b"]),
        lambda: ours.incr("a b"),
        lambda: ours.touch("a b", 1),
    ):
        with pytest.raises(pylibmc.ClientError, match="which memcached does not take"):
            ask()
    assert "new" not in ours
    assert "text" in ours


VALUES = [b"", b"\x00\xff", "", "größer", 0, -7, 2**64, True, False, None, 1.5, (1, [2]), Fraction(1, 3)]


@pytest.mark.parametrize("least", [0, 1], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "value", [*VALUES, "x" * 10_000, b"x" * 300_000, list(range(1000))], ids=lambda it: repr(it)[:9]
)
def test_each_reads_what_the_other_wrote(server: Memcached, value: object, least: int) -> None:
    theirs, ours = filled(server)
    assert theirs.set("theirs", value, min_compress_len=least)
    assert ours.set("ours", value, min_compress_len=least)
    assert theirs.set_multi({"theirs-2": value}, min_compress_len=least) == []
    assert ours.set_multi({"ours-2": value}, min_compress_len=least) == []
    read = [ours.get("theirs"), theirs.get("ours"), ours.get_multi(["theirs-2"])["theirs-2"], theirs.get("ours-2")]
    expected = theirs.get("theirs")
    assert read == [expected] * 4
    assert {type(each) for each in read} == {type(expected)}
    with pinyon.Client(server.address, timeout=30, connect_timeout=30) as plain:
        assert plain.meta("ours").flags == plain.meta("theirs").flags
        assert plain.meta("ours").size == plain.meta("theirs").size


def test_a_bomb_is_refused(server: Memcached, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = filled(server)
    theirs.set("bomb", b"0" * 100_000, min_compress_len=1)
    monkeypatch.setattr("pinyon.compat.pylibmc.values.LARGEST", 50_000)
    with pytest.raises(pylibmc.Error, match="Failed to decompress"):
        ours.get("bomb")


def test_a_damaged_value_is_an_error(server: Memcached) -> None:
    class Damaged:
        def dump(self, value: tuple[bytes, int]) -> tuple[bytes, int]:
            return value

        def load(self, data: bytes, flags: int) -> bytes:
            return data

    ours = pylibmc.Client([server.address])
    with pinyon.Client(server.address, serializer=Damaged(), timeout=20, connect_timeout=20) as plain:
        for data in (b"no zlib", b"", b"x\x9c"):
            plain.set("damaged", (data, 8))
            with pytest.raises(pylibmc.Error, match="Failed to decompress"):
                ours.get("damaged")


def test_the_pickle_protocol_is_the_behavior(server: Memcached) -> None:
    ours = pylibmc.Client([server.address], behaviors={"pickle_protocol": 2})
    assert ours.serialize([1]) == (pickle.dumps([1], 2), 1)
    assert ours.clone().serialize([1]) == (pickle.dumps([1], 2), 1)


class Forgetting(pylibmc.Client):
    """Treats values that it cannot read as misses."""

    def serialize(self, value: Any) -> tuple[bytes, int]:
        return repr(value).encode(), 64

    def deserialize(self, bytestring: bytes, flags: int) -> Any:
        assert flags == 64
        if bytestring == b"'unreadable'":
            raise pylibmc.CacheMiss
        return bytestring.decode()


def test_a_subclass_reads_and_writes_its_own_way(server: Memcached) -> None:
    ours = Forgetting([server.address], behaviors={"cas": True})
    assert ours.set_multi({"a": 1, "b": "unreadable"}) == []
    assert ours.get("a") == "1"
    assert ours.get("b", 7) == 7
    assert ours.gets("b") == (None, None)
    assert ours.get_multi(["a", "b"]) == {"a": "1"}
    assert "b" not in ours.clone()


@pytest.mark.parametrize("returned", ["text", (b"x",), (b"x", "0"), ("x", 0), None])
def test_a_serialize_that_returns_nonsense_is_refused(server: Memcached, returned: Any) -> None:
    class Nonsense(pylibmc.Client):
        def serialize(self, value: Any) -> Any:
            return returned

    ours = Nonsense([server.address])
    for ask in (lambda: ours.set("a", 1), lambda: ours.set_multi({"a": 1}), lambda: ours.add_multi({"a": 1})):
        with pytest.raises(ValueError, match=r"serialize\(\) must return"):
            ask()
    assert not server.holds("a")


def test_threads_may_share_a_client_or_have_one_from_a_pool(own_server: Memcached) -> None:
    ours = pylibmc.Client([own_server.address])
    ours.set_multi({"shared": 0, "pooled": 0, "mapped": 0})
    pool, mapped = pylibmc.ClientPool(ours, 4), pylibmc.ThreadMappedPool(ours)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(50):
                ours.incr("shared")
                with pool.reserve(block=True) as mc:
                    mc.incr("pooled")
                    mc[f"{number}"] = turn
                    assert mc[f"{number}"] == turn
                with mapped.reserve() as mc:
                    mc.incr("mapped")
            mapped.relinquish()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert ours.get_multi(["shared", "pooled", "mapped"]) == {"shared": 400, "pooled": 400, "mapped": 400}
    assert len(mapped) == 0


def test_connections_end_with_the_last_client_that_shares_them(own_server: Memcached) -> None:
    ours = pylibmc.Client([own_server.address])
    clone = ours.clone()
    assert ours.set("a", 1)
    assert clone.get("a") == 1
    assert own_server.has_connections(1)
    ours.disconnect_all()
    assert clone.get("a") == 1
    clone.behaviors = {"_poll_timeout": 1000}
    assert own_server.has_connections(0)
    assert [ours.get("a"), clone.get("a")] == [1, 1]
    assert own_server.has_connections(2)


GREENLETS = """
import gevent.monkey; gevent.monkey.patch_all()
import sys, gevent
from pinyon.compat import pylibmc
mc = pylibmc.Client([sys.argv[1]], behaviors={"cas": True})
pool = pylibmc.ClientPool(mc, 16)
mc["count"] = 0
def work(number):
    for _ in range(20):
        with pool.reserve(block=True) as lent:
            lent.incr("count")
            lent.set_multi({f"{number}": [number]})
            assert lent.get_multi([f"{number}"]) == {f"{number}": [number]}
            assert lent.add_multi({f"{number}": 1}) == [f"{number}"]
gevent.joinall([gevent.spawn(work, number) for number in range(32)], raise_error=True)
assert mc["count"] == 640
(_, stats), = mc.get_stats()
assert int(stats["curr_connections"]) == 1, stats["curr_connections"]
del pool
mc.disconnect_all()
stalled = pylibmc.Client([sys.argv[2]], behaviors={"receive_timeout": 1_000_000})
ticks = []
def tick():
    while True:
        ticks.append(1)
        gevent.sleep(0.005)
gevent.spawn(tick)
try:
    stalled.get("key")
except pylibmc.Error:
    assert len(ticks) > 5, ticks
    print("cooperates")
input()
"""


def test_greenlets_share_a_connection_and_let_each_other_run(own_server: Memcached, four: list[Memcached]) -> None:
    four[0].pause()
    try:
        command = [sys.executable, "-c", GREENLETS, own_server.address, four[0].address]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "cooperates\n"
        assert own_server.has_connections(0)
        process.communicate("\n", timeout=120)
        assert process.returncode == 0
    finally:
        four[0].resume()
