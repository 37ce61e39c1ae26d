"""The shim for pymemcache under faults of a server and with wrong arguments."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, SecureMemcached
from conftest import eventually
from faulty import STALL, FaultyServer, Step
from servers import Memcached

import pinyon
from pinyon.compat.pymemcache import (
    Client,
    HashClient,
    KeepaliveOpts,
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
    PooledClient,
    RetryingClient,
    exceptions,
)
from pinyon.compat.pymemcache.client import _raw, _settings

Faulty = Callable[..., FaultyServer]

FAILURES: dict[str, tuple[list[Step], type[Exception], str]] = {
    "no answer": ([STALL], socket.timeout, "maybe"),
    "closed": ([Step(then="close")], MemcacheUnexpectedCloseError, "maybe"),
    "nonsense": ([Step("nonsense\r\n")], MemcacheUnknownError, "maybe"),
    "unknown": ([Step("ERROR\r\n")], MemcacheUnknownCommandError, "yes"),
    "not understood": ([Step("CLIENT_ERROR bad data chunk\r\n")], MemcacheClientError, "yes"),
    "not done": ([Step("SERVER_ERROR out of memory\r\n")], MemcacheServerError, "yes"),
}


@pytest.mark.parametrize("noreply", [True, False])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_raised_as_pymemcache_raises_it(faulty: Faulty, failure: str, noreply: bool) -> None:
    steps, kind, sent = FAILURES[failure]
    client = Client(faulty(*steps).address, timeout=2 if failure == "no answer" else 30)
    with pytest.raises(kind) as raised:
        client.incr("key", 1, noreply=noreply)
    assert isinstance(raised.value, pinyon.Error)
    assert raised.value.sent == sent
    assert str(client.server[1]) in str(raised.value.server)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", ["get", "get_many", "gets", "gets_many", "stats"])
def test_failures_of_reads_may_be_misses(faulty: Faulty, failure: str, method: str) -> None:
    client = Client(faulty(*FAILURES[failure][0]).address, timeout=0.3, ignore_exc=True)
    call = {"get": lambda: client.get("key", 5), "gets": lambda: client.gets("key"), "stats": client.stats}
    misses: dict[str, Any] = {"get": 5, "gets": (None, None)}
    assert call.get(method, lambda: getattr(client, method)(["key"]))() == misses.get(method, {})


def test_values_that_were_not_stored_are_known_without_a_reply_too(server: Memcached) -> None:
    values = {"small": b"x", "large": b"x" * 2_000_000, "other": b"y"}
    for client in (Client((server.host, server.port)), HashClient([(server.host, server.port)])):
        server.flush()
        assert "large" in client.set_many(values, noreply=False)
        with pytest.raises(MemcacheServerError, match="not known to be stored") as raised:
            client.set_many(values)
        assert "large" in raised.value.partial
        assert client.get_many(values) == {"small": b"x", "other": b"y"}


def test_refused_connections_are_errors_of_the_system(own_server: Memcached) -> None:
    own_server.stop()
    for client in (Client((own_server.host, own_server.port)), HashClient([(own_server.host, own_server.port)])):
        for call in (lambda client=client: client.get("key"), lambda client=client: client.set("key", 1)):
            with pytest.raises(ConnectionError) as raised:
                call()
            assert isinstance(raised.value, pinyon.Error)
            assert not isinstance(raised.value, MemcacheError)
            break


@pytest.mark.parametrize("steps", [[STALL], [Step("VALUE key 0 5\r\nval", then="stall")]])
def test_a_raw_command_ends_by_its_deadline(faulty: Faulty, steps: list[Step]) -> None:
    server = faulty(*steps, version=None)
    server.steps = steps
    with pytest.raises(TimeoutError, match="did not answer in time") as raised:
        Client(server.address, timeout=1).raw_command("get key", "END\r\n")
    assert isinstance(raised.value, pinyon.Timeout)
    assert raised.value.sent == "maybe"


def test_a_raw_reply_has_a_limit(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_raw, "LARGEST_VALUE", 100_000)
    server = faulty(version=None)
    server.steps = [Step("x" * 200_000, then="stall")]
    with pytest.raises(MemcacheUnknownError, match="no end"):
        Client(server.address).raw_command("get key")


def test_the_end_of_a_raw_reply_may_be_cut_anywhere(server: Memcached, roomy: Memcached) -> None:
    client = Client((roomy.host, roomy.port))
    for size in (0, 1, 65535, 65536, 65537, *range(65505, 65535), 3_000_000):
        client.set("key", b"x" * size)
        assert client.raw_command("get key", "END\r\n") == b"VALUE key 0 %d\r\n%s\r\n" % (size, b"x" * size)


def test_a_raw_command_disturbs_no_other(server: Memcached) -> None:
    client = Client((server.host, server.port))
    client.set("key", "value")
    for _ in range(3):
        client.raw_command("mn\r\nget key\r\nget key")
        assert client.get("key") == b"value"


def test_no_timeout_is_a_long_one(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_settings, "TIMEOUT_OF_NONE", 0.2)
    with pytest.raises(TimeoutError):
        Client(faulty(STALL).address).get("key")


def test_a_closed_client_connects_again(own_server: Memcached) -> None:
    client = PooledClient((own_server.host, own_server.port))
    for close in (client.close, client.quit, client.disconnect_all):
        assert client.set("key", "value") is True
        close()
        assert own_server.has_connections(0)
        assert client.get("key") == b"value"


class ClosedMeanwhile(Client):
    """A client that is closed by another thread just before it sends a command."""

    def _connected(self) -> Any:
        return Closing(self, super()._connected())


class Closing:
    def __init__(self, client: Client, inner: pinyon.Client) -> None:
        self.client = client
        self.close = inner.close
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if not self.client.__dict__.setdefault("was_closed", False):
            self.client.__dict__["was_closed"] = True
            self.client.close()
        return getattr(self.inner, name)


def test_a_client_that_is_closed_meanwhile_goes_on(server: Memcached) -> None:
    client = ClosedMeanwhile((server.host, server.port))
    assert client.set("key", "value") is True
    assert client.__dict__["was_closed"]
    assert client.get("key") == b"value"


def test_a_socket_is_found_from_the_folder_where_one_is(
    unix_memcached: Memcached, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(str(unix_memcached.path))
    monkeypatch.chdir(path.parent)
    for place in (str(path), f"unix:{path}", f"unix:{path.name}"):
        client = Client(place)
        assert client.set("key", place) is True
        assert client.raw_command("mg key v") == b"VA %d" % len(place)


def test_a_retrying_client_tries_again(faulty: Faulty) -> None:
    server = faulty(Step("SERVER_ERROR busy\r\n"), Step("5\r\n"), version="1.4.15")
    retrying = RetryingClient(Client(server.address), attempts=2, retry_for=[MemcacheServerError])
    assert retrying.incr("key", 1) == 5
    assert retrying.server == Client(server.address).server


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "sockets of its own": ({"socket_module": threading}, pinyon.UsageError, "gevent.socket"),
    "keepalive": ({"socket_keepalive": True}, ValueError, "KeepaliveOpts"),
    "keepalive_times": (
        {"socket_keepalive": KeepaliveOpts(idle=40_000)},
        pinyon.UsageError,
        "keepalive must be at most",
    ),
    "prefix": ({"key_prefix": 5}, TypeError, "bytes"),
    "no time": ({"timeout": 0}, pinyon.UsageError, "timeout"),
    "tls": ({"tls_context": "ca.pem"}, pinyon.UsageError, "SSLContext"),
    "trusts nobody": ({"tls_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}, pinyon.UsageError, "ca.pem"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_settings_that_make_no_sense_are_refused(what: str) -> None:
    settings, kind, match = REFUSED[what]
    for make in (Client, PooledClient, lambda server, **settings: HashClient([server], **settings)):
        with pytest.raises(kind, match=match):
            make("localhost", **settings)


@pytest.fixture(scope="module")
def authority(certificates: Path) -> Authority:
    return Authority(certificates, "shim")


@pytest.fixture(scope="module")
def secure(authority: Authority) -> Iterator[SecureMemcached]:
    with SecureMemcached(authority.issue("127.0.0.1")) as server:
        yield server


def test_tls_by_a_context(secure: SecureMemcached, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    client = Client((secure.host, secure.port), tls_context=context)
    assert client.set("key", "value") is True
    assert client.get("key") == b"value"
    assert client.raw_command("get key", "END\r\n") == b"VALUE key 0 5\r\nvalue\r\n"


def test_a_context_that_trusts_others_is_not_served(secure: SecureMemcached, certificates: Path) -> None:
    context = ssl.create_default_context(cafile=str(Authority(certificates, "others").file))
    client = Client((secure.host, secure.port), tls_context=context)
    for call in (lambda: client.get("key"), lambda: client.raw_command("get key", "END\r\n")):
        with pytest.raises(pinyon.ConnectError, match="certificate"):
            call()


def test_tls_by_pinyons_own(secure: SecureMemcached, authority: Authority) -> None:
    client = PooledClient((secure.host, secure.port), tls_context=pinyon.Tls(ca=authority.file))
    assert client.set("key", "value") is True
    with pytest.raises(pinyon.UsageError, match="SSLContext"):
        client.raw_command("get key")


def test_a_context_that_verifies_nothing_is_taken_at_its_word(secure: SecureMemcached, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    context.check_hostname = False
    with pytest.raises(pinyon.UsageError, match="server_name"):
        Client("localhost", tls_context=context)
    context.verify_mode = ssl.CERT_NONE
    assert Client((secure.host, secure.port), tls_context=context).get("none") is None


def test_the_keys_of_a_dead_server_go_to_the_others(four: list[Memcached], own_server: Memcached) -> None:
    places = [(server.host, server.port) for server in (*four, own_server)]
    client = HashClient(places, timeout=30, retry_attempts=1, retry_timeout=0, dead_timeout=0.2, ignore_exc=True)
    keys = [f"key:{number}" for number in range(200)]
    assert client.set_many(dict.fromkeys(keys, b"1"), noreply=False) == []
    lost = [key for key in keys if own_server.holds(key)]
    own_server.stop()
    assert lost
    assert set(client.set_many(dict.fromkeys(keys, b"2"), noreply=False)) == set(lost)
    assert client.get_many(keys) == dict.fromkeys(set(keys) - set(lost), b"2")

    everything = dict.fromkeys(keys, b"2") | dict.fromkeys(lost, b"3")

    def moved() -> None:
        """The dead server is tried again and again, at the cost of what is asked for then."""
        if client.set_many(dict.fromkeys(lost, b"3"), noreply=False) or client.get_many(keys) != everything:
            raise pinyon.ServerDown("not yet given up")

    eventually(moved)
    own_server.restart()

    def back() -> None:
        client.set_many(dict.fromkeys(lost, b"4"))
        if not all(own_server.holds(key) for key in lost):
            raise pinyon.ServerDown("not yet back")

    eventually(back)


def test_a_server_that_was_removed_is_not_asked(four: list[Memcached]) -> None:
    places = [(server.host, server.port) for server in four]
    client = HashClient(places)
    client.remove_server(*places[0])
    values = {f"key:{number}": 1 for number in range(100)}
    assert client.set_many(values) == []
    assert [any(map(server.holds, values)) for server in four] == [False, True, True, True]
    client.add_server(places[0])
    client.set_many(values)
    assert any(map(four[0].holds, values))


def test_errors_are_one_tree_and_can_be_pickled() -> None:
    kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, MemcacheError) and issubclass(kind, pinyon.Error) for kind in kinds)
    for kind, message in itertools.product(kinds, ("", "words")):
        error = pickle.loads(pickle.dumps(kind(message, server="a:1", sent="yes")))
        assert (type(error), str(error), error.server, error.sent) == (kind, message, "a:1", "yes")
    with contextlib.suppress(MemcacheIllegalInputError):
        raise MemcacheIllegalInputError
