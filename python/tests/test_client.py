"""The client itself: its arguments, its lifetime, and its descriptions."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
from typing import Any

import pytest
from servers import Memcached

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon._native import DEFAULT_SETTINGS


def test_one_server_or_several_in_every_notation(four: list[Memcached]) -> None:
    addresses = [server.address for server in four]
    for servers in (addresses, tuple(addresses), ",".join(addresses), ", ".join(addresses), iter(addresses)):
        with pinyon.Client(servers, timeout=10, connect_timeout=10) as client:
            assert set(client.version()) == set(addresses)
    mixed = [addresses[0], f"{addresses[1]}:5", f" {addresses[2]},{addresses[3]} "]
    with pinyon.Client(mixed, timeout=10, connect_timeout=10) as client:
        assert set(client.version()) == set(addresses)


@pytest.mark.parametrize("name", ["127.1", "localhost"])
def test_a_name_is_resolved(server: Memcached, name: str) -> None:
    """Resolvers read 127.1 without asking any server, although it is not an address in our sense."""
    with pinyon.Client(f"{name}:{server.port}", timeout=10, connect_timeout=10) as client:
        assert client.set("key", 1)
        assert list(client.version()) == [f"{name}:{server.port}"]


def test_servers_come_from_the_environment_where_none_are_given(
    server: Memcached, four: list[Memcached], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMCACHE_SERVERS", f" {four[0].address},{four[1].address} ")
    with pinyon.Client(timeout=10, connect_timeout=10) as client:
        assert set(client.version()) == {four[0].address, four[1].address}
    with pinyon.Client(server.address, timeout=10, connect_timeout=10) as client:
        assert list(client.version()) == [server.address]
    for empty in ("", " "):
        monkeypatch.setenv("MEMCACHE_SERVERS", empty)
        assert "127.0.0.1:11211" in repr(pinyon.Client())
    monkeypatch.delenv("MEMCACHE_SERVERS")
    assert "127.0.0.1:11211" in repr(pinyon.Client())


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ([], "empty"),
        ("", "empty"),
        ("a,,b", "empty"),
        ("a,", "empty"),
        ("a:0", "port"),
        ("a:65536", "port"),
        ("a:http", "port"),
        ("a:-1", "port"),
        ("a:1:0", "weight"),
        ("a:1:2:3", "colons"),
        ("::1", "host is missing"),
        ("[::1", "bracket"),
        ("[::1]11211", "bracket"),
        ("a b", "space"),
        ("a\r\nb", "control"),
        (["a:1", "a:1"], "twice"),
        (["a", "a:11211"], "twice"),
        ([b"a"], "a server must be str such as"),
        ([("a", 1)], "a server must be str such as"),
        ([None], "a server must be str such as"),
    ],
)
def test_a_malformed_server_list_says_what_is_wrong(servers: Any, why: str) -> None:
    with pytest.raises(pinyon.InvalidServers, match=why) as raised:
        pinyon.Client(servers)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("option", ["timeout", "connect_timeout"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e300])
def test_a_timeout_must_be_a_positive_number_of_seconds(option: str, value: Any) -> None:
    with pytest.raises(pinyon.UsageError, match=f"{option} must be (a positive number of|at most 2147483647) seconds"):
        pinyon.Client("127.0.0.1", **{option: value})


@pytest.mark.parametrize(
    "options",
    [{"timeout": None}, {"timeout": "1"}, {"max_connections": 1.5}, {"unknown": 1}, {"failover": "yes"}],
    ids=str,
)
def test_an_argument_of_the_wrong_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        pinyon.Client("127.0.0.1", **options)


@pytest.mark.parametrize("option", ["max_connections", "max_value_size"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_at_least_one(option: str, value: int) -> None:
    with pytest.raises(ValueError, match=option):
        pinyon.Client("127.0.0.1", **{option: value})


def settings_of(made: type) -> dict[str, Any]:
    """The settings of a class, with their defaults. Its docstring has to list the same ones."""
    rows = re.findall(r"^    (\w[\w, ]*): ", (inspect.getdoc(made) or "").split("Raises:")[0], re.MULTILINE)
    parameters = inspect.signature(made).parameters
    assert [name for row in rows for name in row.split(", ")] == list(parameters)
    return {name: parameter.default for name, parameter in parameters.items()}


def test_every_setting_of_the_core_is_an_argument_with_its_default() -> None:
    core = json.loads(DEFAULT_SETTINGS)
    own = {"serializer": "portable", "on_event": None}
    for made in (pinyon.aio.Client, pinyon.gevent.Client):
        assert settings_of(made) == {**core["Client"], **own}
    assert settings_of(pinyon.Client) == {
        name: default for name, default in settings_of(pinyon.aio.Client).items() if name != "connections"
    }
    for made in (pinyon.Locks, pinyon.aio.Locks, pinyon.gevent.Locks):
        assert settings_of(made) == {**core["Locks"], "on_event": None}
    assert settings_of(pinyon.Tls) == core["Tls"]
    compression = settings_of(pinyon.Compression)
    assert compression.pop("dictionaries") is None
    assert compression == {name: core["Compression"][name] for name in compression}


def test_a_misspelled_setting_is_answered_with_the_closest() -> None:
    for kind in (pinyon.Client, pinyon.aio.Client, pinyon.Locks, pinyon.aio.Locks):
        with pytest.raises(TypeError, match='there is no setting "time_out"; did you mean "timeout"'):
            kind(time_out=1)  # type: ignore[call-arg]


def test_only_the_servers_are_positional() -> None:
    with pytest.raises(TypeError):
        pinyon.Client("127.0.0.1", "namespace")  # type: ignore[misc]


def test_a_client_connects_when_it_is_used(own_server: Memcached) -> None:
    client = pinyon.Client(own_server.address, timeout=10, connect_timeout=10)
    assert own_server.has_connections(0)
    client.get("key")
    client.get("key")
    assert own_server.has_connections(1)
    client.close()
    assert own_server.has_connections(0)


def test_a_closed_client_refuses_every_use(client: pinyon.Client) -> None:
    client.set("key", 1)
    client.close()
    client.close()
    assert client.is_closed
    for use in (
        lambda: client.get("key"),
        lambda: client.set("key", 2),
        lambda: client.get_many(["key"]),
        lambda: client.get_many([]),
        lambda: client.set_many({"key": 2}),
        lambda: client.delete_many(["key"]),
        lambda: client.incr("key"),
        lambda: client.meta("key"),
        lambda: client.quiet(),
        lambda: client.version(),
        lambda: client.stats(),
        lambda: client.flush_all(),
    ):
        with pytest.raises(pinyon.Closed, match="the client was closed"):
            use()


def test_a_batch_of_a_closed_client_is_refused_too(client: pinyon.Client) -> None:
    batch = client.quiet()
    client.close()

    def use() -> None:
        with batch:
            batch.set("key", 1)

    with pytest.raises(pinyon.Closed):
        use()


def test_a_closed_client_keeps_no_connection(own_server: Memcached) -> None:
    client = pinyon.Client(own_server.address, timeout=10, connect_timeout=10)
    with client.quiet() as batch:
        batch.set("key", 1)
        client.close()
    assert own_server.has_connections(0)


def test_leaving_the_block_closes_the_client(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10) as client:
        assert isinstance(client, pinyon.Client)
        client.set("key", 1)
    assert client.is_closed
    with (
        pytest.raises(RuntimeError, match="of the block"),
        pinyon.Client(server.address, timeout=20, connect_timeout=20) as client,
    ):
        raise RuntimeError("of the block")
    assert client.is_closed


def test_a_forgotten_client_closes_its_connections(own_server: Memcached) -> None:
    client = pinyon.Client(own_server.address, timeout=10, connect_timeout=10)
    client.get("key")
    del client
    assert own_server.has_connections(0)


def test_repr_shows_servers_and_state(own_server: Memcached) -> None:
    client = pinyon.Client([own_server.address, "127.0.0.1:1"], timeout=10, connect_timeout=10)
    assert repr(client) == f"<pinyon.Client {own_server.address} not used yet; 127.0.0.1:1 not used yet>"
    client.set_many({f"key:{number}": 1 for number in range(100)})
    assert f"{own_server.address} up, 1 connected, 1 idle" in repr(client)
    assert "127.0.0.1:1 down, 0 connected" in repr(client)
    client.close()
    assert repr(client) == "<pinyon.Client closed>"
    own = type("Own", (pinyon.aio.Client,), {"__module__": "shop"})
    for kind, name in [(pinyon.aio.Client, "pinyon.aio.Client"), (own, "shop.Own")]:
        assert repr(kind("127.0.0.1:1")) == f"<{name} 127.0.0.1:1 not used yet>"


def test_a_subclass_adds_methods(server: Memcached) -> None:
    class Cache(pinyon.Client):
        def remember(self, key: str, value: object) -> object:
            return value if self.add(key, value) else self.get(key)

    with Cache(server.address, timeout=10, connect_timeout=10) as cache:
        assert isinstance(cache, Cache)
        assert cache.remember("key", 1) == 1
        assert cache.remember("key", 2) == 1


def test_a_subclass_calls_its_parents_init(server: Memcached) -> None:
    class Cache(pinyon.Client):
        def __init__(self, *servers: str, **options: Any) -> None:
            super().__init__(*servers, **options)
            self.calls = 0

        def get(self, key: Any, default: Any = None) -> Any:
            self.calls += 1
            return super().get(key, default)

    with Cache(server.address, timeout=10, connect_timeout=10) as cache:
        cache.set("key", 1)
        assert cache.get("key") == 1
        assert cache.calls == 1


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_not_copied_silently(client: pinyon.Client, use: Any) -> None:
    with pytest.raises(TypeError):
        use(client)


def test_an_error_survives_being_pickled(server: Memcached) -> None:
    with pinyon.Client(["127.0.0.1:1", server.address], timeout=10, connect_timeout=10, failover=False) as client:
        with pytest.raises(pinyon.ConnectError) as raised:
            client.get_many([f"key:{number}" for number in range(100)])
        error = pickle.loads(pickle.dumps(raised.value))
        assert type(error) is pinyon.ConnectError
        assert str(error) == str(raised.value)
        assert (error.server, error.command, error.sent, error.partial) == ("127.0.0.1:1", "get_many", "no", {})
    failure = pinyon.BatchFailure("key", "set", "refused", None)
    assert pickle.loads(pickle.dumps(pinyon.BatchError([failure]))).failures == [failure]


def test_errors_form_one_tree_and_are_pythons_own_too() -> None:
    fitting = {
        "Timeout": TimeoutError,
        "ConnectError": ConnectionError,
        "ConnectionLost": ConnectionError,
        "ServerDown": ConnectionError,
        "UsageError": ValueError,
        "InvalidKey": ValueError,
        "InvalidServers": ValueError,
        "ValueTooLarge": ValueError,
        "UndecodableValue": ValueError,
        "UnknownFlags": ValueError,
        "UnsupportedType": TypeError,
    }
    classes = [getattr(pinyon, name) for name in pinyon.__all__]
    errors = [each for each in classes if isinstance(each, type) and issubclass(each, Exception)]
    assert all(issubclass(error, pinyon.Error) for error in errors)
    assert all(issubclass(getattr(pinyon, name), own) for name, own in fitting.items())


def test_every_public_name_has_a_docstring() -> None:
    methods = [name for name in dir(pinyon.Client) if not name.startswith("_")]
    assert {"get", "set", "get_many", "quiet"} <= set(methods)
    undocumented = [name for name in methods if not getattr(pinyon.Client, name).__doc__ and name != "is_closed"]
    assert undocumented == []


@pytest.mark.parametrize("kind", ["a\r\nflush_all", "é", "a;b"])
def test_a_kind_of_stats_cannot_leave_its_line(client: pinyon.Client, kind: str) -> None:
    client.set("key", 1)
    with pytest.raises(pinyon.UsageError, match="stats kind"):
        client.stats(kind)
    assert client.get("key") == 1
