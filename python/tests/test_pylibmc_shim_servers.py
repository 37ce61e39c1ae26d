"""Which servers Pinyon's replacement for pylibmc uses, and what it does when they are down."""

from __future__ import annotations

import time
from typing import Any

import pylibmc as original
import pytest
from pylibmc_both import filled, outcome
from servers import PASSWORD, GuardedMemcached, Memcached

import pinyon
from pinyon.compat import pylibmc
from pinyon.compat.pylibmc import rings


def test_a_server_that_is_away_is_told_as_in_pylibmc(own_server: Memcached) -> None:
    theirs, ours = filled(own_server)
    own_server.stop()
    assert outcome(lambda mc: mc.set("a", 1), pylibmc.Client([own_server.address])) == "ConnectionError"
    assert outcome(lambda mc: mc.get("a"), ours) in ("ConnectionError", "UnknownReadFailure")
    names = {outcome(ask, ours) for ask in (lambda mc: mc.get("a"), lambda mc: mc.incr("a"), lambda mc: mc.delete("a"))}
    assert names <= {"ConnectionError", "ServerDown"}
    assert {outcome(lambda mc: mc.flush_all(), mc) for mc in (theirs, ours)} == {"SomeErrors"}
    assert outcome(lambda mc: mc.set_multi({"a": 1}), ours) in ("ConnectionError", "ServerDown")
    assert outcome(lambda mc: mc.add_multi({"a": 1}), ours) in ("ConnectionError", "ServerDown")
    assert outcome(lambda mc: mc.get_multi(["a"]), ours) in ("ConnectionError", "ServerDown")


def test_an_error_has_pylibmcs_number_and_pinyons_cause(own_server: Memcached) -> None:
    ours = pylibmc.Client([own_server.address])
    own_server.stop()
    with pytest.raises(pylibmc.ConnectionError, match=own_server.address) as raised:
        ours.get("a")
    assert raised.value.retcode == original.ConnectionError.retcode
    assert isinstance(raised.value.__cause__, pinyon.ConnectError)
    assert raised.value.__cause__.sent == "no"


def test_a_name_that_does_not_resolve_is_an_error_of_its_own() -> None:
    with pytest.raises(pylibmc.HostLookupError):
        pylibmc.Client(["does-not-exist.invalid"]).get("a")


def test_a_silent_server_costs_the_timeout_of_the_behaviors(own_server: Memcached) -> None:
    ours = pylibmc.Client([own_server.address], behaviors={"receive_timeout": 1_000_000})
    ours.set("a", 1)
    own_server.pause()
    began = time.monotonic()
    with pytest.raises(pylibmc.Error) as raised:
        ours.get("a")
    assert isinstance(raised.value.__cause__, pinyon.Timeout)
    assert 0.9 < time.monotonic() - began < 30


KETAMA = {"ketama_weighted": True}


def test_get_multi_returns_what_the_servers_have_that_answer(four: list[Memcached], own_server: Memcached) -> None:
    addresses = [four[0].address, own_server.address]
    theirs, ours = (module.Client(addresses, behaviors=KETAMA) for module in (original, pylibmc))
    values = {f"key:{number}": number for number in range(50)}
    assert theirs.set_multi(values) == []
    assert ours.get_multi(list(values)) == values
    own_server.stop()
    expected = original.Client(addresses, behaviors=KETAMA).get_multi(list(values))
    assert 0 < len(expected) < 50
    assert ours.get_multi(list(values)) == expected
    with pytest.raises(pylibmc.Error):
        ours.set_multi(values)


def test_keys_of_a_dead_server_move_with_auto_eject_alone(four: list[Memcached], own_server: Memcached) -> None:
    addresses = [four[0].address, own_server.address]
    own_server.stop()
    moving = pylibmc.Client(addresses, behaviors={**KETAMA, "remove_failed": 1})
    staying = pylibmc.Client(addresses, behaviors=KETAMA)
    keys = [f"key:{number}" for number in range(50)]
    outcomes = [outcome(lambda mc, key=key: mc.set(key, 1), moving) for key in keys]
    assert [outcome for outcome in outcomes if outcome is not True] in (
        [],
        ["ConnectionError"],
        ["ConnectionError"] * 2,
    )
    assert {outcome(lambda mc, key=key: mc.set(key, 1), staying) for key in keys} >= {True, "ServerDown"}


@pytest.mark.parametrize(("distribution", "hash_name"), rings.RINGS, ids=str)
def test_keys_are_on_the_servers_that_pylibmc_puts_them_on(
    four: list[Memcached], distribution: str, hash_name: str
) -> None:
    addresses = [f"{four[0].address}:3", *(server.address for server in four[1:])]
    behaviors = {"distribution": distribution, "hash": hash_name}
    theirs, ours = (module.Client(addresses, behaviors=behaviors) for module in (original, pylibmc))
    values = {f"key:{number}": number for number in range(500)}
    assert theirs.set_multi(values) == []
    assert all(ours.get(key) == value for key, value in values.items())
    assert ours.get_multi(list(values)) == values
    assert [ours.hash(key) for key in values] == [theirs.hash(key) for key in values]


def test_a_ring_that_there_is_not_is_refused_when_it_matters(four: list[Memcached]) -> None:
    behaviors = {"hash": "murmur"}
    assert pylibmc.Client([four[0].address], behaviors=behaviors).set("a", 1)
    several = pylibmc.Client([server.address for server in four], behaviors=behaviors)
    with pytest.raises(pylibmc.NotSupportedError, match="murmur"):
        several.set("a", 1)
    several.behaviors = KETAMA
    assert several.set("a", 1)


def test_a_login_is_that_of_memcached(guarded_memcached: GuardedMemcached) -> None:
    ours = pylibmc.Client([guarded_memcached.address], username="app", password=PASSWORD)
    assert ours.set("a", 1)
    assert ours.clone().get("a") == 1
    assert PASSWORD not in repr(ours) + str(ours) + repr(vars(ours).keys())
    with pytest.raises(TypeError, match="both"):
        pylibmc.Client([guarded_memcached.address], username="app")


def test_a_namespace_is_put_before_every_key(server: Memcached) -> None:
    theirs, ours = (module.Client([server.address], behaviors={"namespace": b"n:"}) for module in (original, pylibmc))
    theirs.set("a", 1)
    assert ours.get_multi(["a"]) == {"a": 1}
    assert server.holds("n:a")
    assert "namespace" not in ours.behaviors
    assert ours.clone()["a"] == 1
    with pytest.raises(ValueError, match="too long"):
        ours.get("k" * 249)


SERVERS = [
    ["127.0.0.1"],
    ["127.0.0.1:1234"],
    ["127.0.0.1:1234:2", "[::1]"],
    ["[::1]:22122:3"],
    ["localhost:1", "localhost:2"],
    [(1, "127.0.0.1", 1234)],
    ["/run/memcached.sock"],
    [(4, "/run/memcached.sock", 0)],
]


@pytest.mark.parametrize("servers", SERVERS, ids=repr)
def test_servers_are_written_as_in_pylibmc(servers: Any) -> None:
    theirs, ours = original.Client(servers), pylibmc.Client(servers)
    assert ours.addresses == theirs.addresses
    assert [repr(ours), str(ours)] == [repr(theirs), str(theirs)]


def test_servers_may_be_tuples_with_names_and_weights(server: Memcached, unix_memcached: Memcached) -> None:
    for spec in (
        ("inet", server.host, server.port, 1),
        (1, server.host, server.port, 3),
        ("unix", unix_memcached.path),
    ):
        assert pylibmc.Client([spec]).set("a", 1)


@pytest.mark.parametrize(
    ("servers", "error", "says"),
    [
        ([], pylibmc.Error, "empty server list"),
        (["udp:127.0.0.1"], pylibmc.NotSupportedError, "UDP"),
        ([(2, "127.0.0.1", 1)], pylibmc.NotSupportedError, "UDP"),
        ("127.0.0.1", TypeError, "a list of servers"),
        (["127.0.0.1:x"], ValueError, "invalid literal"),
        (["[::1"], ValueError, "malformed"),
        ([("/x", "y", 1)], ValueError, "bad type"),
        ([(4, "/x", 3)], ValueError, "port"),
    ],
)
def test_servers_that_make_no_sense_are_refused(servers: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        pylibmc.Client(servers)
